// Command record writes what Go's encoding/json reads from odd request bodies, for the test that
// compares kubextend's reading with it (tests/contract/test_reading_agrees_with_go.py).
//
// Run it in tests/go; it writes tests/data/corpus/*.jsonl, the same bytes every time:
//
//	go run ./contract/record
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"log"
	"os"
	"path/filepath"
	"unicode/utf8"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

const folder = "../data/corpus"

// Where kubextend deliberately differs from Go. Every other body is read as Go reads it.
const (
	// Go's Decoder stops after the first value; a body has to end there.
	trailing = "refused: trailing bytes"
	// Go puts U+FFFD in place of what is not UTF-8.
	notUTF8 = "refused: invalid UTF-8"
	// Go goes 10,000 deep.
	tooDeep = "refused: deeper than 128"
	// Go merges them; nodes that were given twice cannot be echoed as they came.
	twice = "refused: nodes given twice"
	// Go decodes every field of the API; no plugin reads this one, so it only has to be JSON.
	unread = "accepted: wrong type in a field that is not read"
)

type sample struct {
	name       string
	body       string
	deliberate string
}

type record struct {
	Name       string `json:"name"`
	Body       string `json:"body,omitempty"`
	BodyBase64 string `json:"bodyBase64,omitempty"`
	Deliberate string `json:"deliberate,omitempty"`
	Error      string `json:"error,omitempty"`
	View       any    `json:"view,omitempty"`
}

func main() {
	for name, lines := range map[string][]byte{
		"args":       recorded(argsSamples(), viewArgs),
		"preemption": recorded(preemptionSamples(), viewPreemption),
		"binding":    recorded(bindingSamples(), viewBinding),
	} {
		if err := os.WriteFile(filepath.Join(folder, name+".jsonl"), lines, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// recorded decodes each body as kube-scheduler decodes an answer: json.Decoder, one value.
func recorded[T any](samples []sample, view func(*T) any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	names := map[string]bool{}
	for _, s := range samples {
		if names[s.name] {
			log.Fatalf("two samples are named %q", s.name)
		}
		names[s.name] = true
		r := record{Name: s.name, Deliberate: s.deliberate}
		if utf8.ValidString(s.body) {
			r.Body = s.body
		} else {
			r.BodyBase64 = base64.StdEncoding.EncodeToString([]byte(s.body))
		}
		var decoded T
		if err := json.NewDecoder(bytes.NewReader([]byte(s.body))).Decode(&decoded); err != nil {
			r.Error = err.Error()
		} else {
			r.View = view(&decoded)
		}
		if err := encoder.Encode(r); err != nil {
			log.Fatal(err)
		}
	}
	return out.Bytes()
}

type preemptionView struct {
	Pod *podView `json:"pod"`
	// Of whichever map is not empty: kube-scheduler sends one. A node with null offers nothing.
	Candidates map[string]victimsView `json:"candidates"`
}

type victimsView struct {
	UIDs          []string `json:"uids"`
	PDBViolations int64    `json:"pdbViolations"`
}

func viewPreemption(args *extenderv1.ExtenderPreemptionArgs) any {
	view := preemptionView{Pod: viewPod(args.Pod), Candidates: map[string]victimsView{}}
	for node, victims := range args.NodeNameToVictims {
		if victims == nil {
			continue
		}
		v := victimsView{UIDs: []string{}, PDBViolations: victims.NumPDBViolations}
		for _, pod := range victims.Pods {
			v.UIDs = append(v.UIDs, string(pod.UID))
		}
		view.Candidates[node] = v
	}
	for node, victims := range args.NodeNameToMetaVictims {
		if victims == nil {
			continue
		}
		v := victimsView{UIDs: []string{}, PDBViolations: victims.NumPDBViolations}
		for _, pod := range victims.Pods {
			v.UIDs = append(v.UIDs, pod.UID)
		}
		view.Candidates[node] = v
	}
	return view
}

type bindingView struct {
	PodName      string `json:"podName"`
	PodNamespace string `json:"podNamespace"`
	PodUID       string `json:"podUID"`
	Node         string `json:"node"`
}

func viewBinding(args *extenderv1.ExtenderBindingArgs) any {
	return bindingView{args.PodName, args.PodNamespace, string(args.PodUID), args.Node}
}
