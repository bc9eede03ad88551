package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// The profiles of tests/contract/test_go_reads_the_answers.py, in Go.
const (
	seed      = 20261121
	rdmaLabel = "node.kubernetes.io/rdma-enabled"
	noRDMA    = "Node does not support RDMA"
	wrongZone = "wrong zone"
)

var (
	zones  = mustParse("zone in (a,b,),!nothing")
	scores = []struct {
		selector labels.Selector
		score    int64
	}{
		{mustParse("disk=ssd"), 30},
		{mustParse("cores>8"), 45},
		{mustParse("zone notin (c)"), 25},
	}
)

const scoreWeight = 3

func mustParse(text string) labels.Selector {
	selector, err := labels.Parse(text)
	if err != nil {
		panic(err)
	}
	return selector
}

// reason says why a pod may not run on a node; empty where it may.
func reason(pod *v1.Pod, n *v1.Node) string {
	switch pod.Spec.SchedulerName {
	case "default-scheduler":
		if _, needs := pod.Labels["high-comm"]; needs && n.Labels[rdmaLabel] != "true" {
			return noRDMA
		}
	case "label-match":
		if pod.Labels["team"] == "ml" && !zones.Matches(labels.Set(n.Labels)) {
			return wrongZone
		}
	}
	return ""
}

func score(pod *v1.Pod, n *v1.Node) int64 {
	if pod.Spec.SchedulerName != "label-match" {
		return 0
	}
	var sum int64
	for _, s := range scores {
		if s.selector.Matches(labels.Set(n.Labels)) {
			sum += s.score
		}
	}
	return int64(math.Round(float64(sum*scoreWeight) / 10))
}

// request is one filter or prioritize request.
type request struct {
	pod   string
	nodes []node
	names bool
	lower bool
}

func (r request) body() []byte {
	items, names := make([]string, len(r.nodes)), make([]string, len(r.nodes))
	for i, n := range r.nodes {
		items[i] = n.raw
		names[i] = quote(n.decoded.Name)
	}
	nodeList, nodeNames := `{"metadata":{},"items":[`+strings.Join(items, ",")+`]}`, "null"
	if r.names {
		nodeList, nodeNames = "null", "["+strings.Join(names, ",")+"]"
	}
	text := fmt.Sprintf(`{"Pod":%s,"Nodes":%s,"NodeNames":%s}`, r.pod, nodeList, nodeNames)
	if r.lower {
		// kube-scheduler up to 1.16: lower case, and what is empty is left out.
		left := map[bool]string{false: `,"nodes":` + nodeList, true: `,"nodenames":` + nodeNames}[r.names]
		text = fmt.Sprintf(`{"pod":%s%s}`, r.pod, left)
	}
	return []byte(text)
}

func (r request) decodedPod(t *testing.T) *v1.Pod {
	t.Helper()
	var pod v1.Pod
	if err := json.Unmarshal([]byte(r.pod), &pod); err != nil {
		t.Fatal(err)
	}
	return &pod
}

func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(quoted)
}

// recorded reads a request that a real kube-scheduler sent.
func recorded(t testing.TB, mode, name string) request {
	t.Helper()
	var args struct {
		Pod   json.RawMessage
		Nodes *struct{ Items []json.RawMessage }
	}
	var full = args
	for into, from := range map[any]string{&args: mode, &full: "full"} {
		if err := json.Unmarshal(readWire(t, from, name), into); err != nil {
			t.Fatal(err)
		}
	}
	r := request{pod: string(args.Pod), names: args.Nodes == nil}
	for _, item := range full.Nodes.Items {
		r.nodes = append(r.nodes, parsed(t, string(item)))
	}
	if r.names {
		r.nodes = byName(t, r.nodes, readWire(t, mode, name))
	}
	return r
}

// byName puts the nodes in the order of a request's NodeNames.
func byName(t testing.TB, nodes []node, body []byte) []node {
	t.Helper()
	var args extenderv1.ExtenderArgs
	if err := json.Unmarshal(body, &args); err != nil {
		t.Fatal(err)
	}
	ordered := []node{}
	for _, name := range *args.NodeNames {
		i := slices.IndexFunc(nodes, func(n node) bool { return n.decoded.Name == name })
		if i < 0 {
			// One mode's recording may name a node that the other's does not hold.
			ordered = append(ordered, knownNode(t, name))
			continue
		}
		ordered = append(ordered, nodes[i])
	}
	return ordered
}

func knownNode(t testing.TB, name string) node {
	t.Helper()
	for _, n := range recorded(t, "full", "filter").nodes {
		if n.decoded.Name == name {
			return n
		}
	}
	t.Fatalf("no recorded node %q", name)
	return node{}
}

func checkFilter(t *testing.T, r request) {
	t.Helper()
	pod := r.decodedPod(t)
	var result extenderv1.ExtenderFilterResult
	answer := call(t, "filter", r.body(), &result)
	kept, failed := []node{}, extenderv1.FailedNodesMap{}
	for _, n := range r.nodes {
		if why := reason(pod, &n.decoded); why != "" {
			failed[n.decoded.Name] = why
		} else {
			kept = append(kept, n)
		}
	}
	checkKeys(t, answer, result)
	if result.Error != "" {
		t.Fatalf("Error: %s", result.Error)
	}
	if len(result.FailedNodes) > 0 {
		t.Errorf("FailedNodes: %v", result.FailedNodes)
	}
	if len(failed)+len(result.FailedAndUnresolvableNodes) > 0 && !reflect.DeepEqual(result.FailedAndUnresolvableNodes, failed) {
		t.Errorf("FailedAndUnresolvableNodes: got %d, want %d", len(result.FailedAndUnresolvableNodes), len(failed))
	}
	if r.names {
		checkKeptNames(t, result, kept)
	} else {
		checkKeptNodes(t, answer, result, kept)
	}
}

// checkKeys wants every field of the result type by its very name, and no other.
func checkKeys(t *testing.T, answer []byte, result any) {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(answer, &fields); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys(fields))
	want := []string{}
	for i := range reflect.TypeOf(result).NumField() {
		want = append(want, reflect.TypeOf(result).Field(i).Name)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the answer has the fields %q, want %q", got, want)
	}
}

func checkKeptNames(t *testing.T, result extenderv1.ExtenderFilterResult, kept []node) {
	t.Helper()
	if result.Nodes != nil || result.NodeNames == nil {
		t.Fatalf("want NodeNames alone, got Nodes %v, NodeNames %v", result.Nodes, result.NodeNames)
	}
	names := []string{}
	for _, n := range kept {
		names = append(names, n.decoded.Name)
	}
	if !slices.Equal(*result.NodeNames, names) {
		t.Errorf("kept %q, want %q", *result.NodeNames, names)
	}
}

// checkKeptNodes holds kube-scheduler's view of each kept node, and its bytes, against the sent one.
func checkKeptNodes(t *testing.T, answer []byte, result extenderv1.ExtenderFilterResult, kept []node) {
	t.Helper()
	if result.NodeNames != nil || result.Nodes == nil {
		t.Fatalf("want Nodes alone, got Nodes %v, NodeNames %v", result.Nodes, result.NodeNames)
	}
	var bare struct {
		Nodes struct{ Items []json.RawMessage }
	}
	if err := json.Unmarshal(answer, &bare); err != nil {
		t.Fatal(err)
	}
	if len(result.Nodes.Items) != len(kept) {
		t.Fatalf("kept %d nodes, want %d", len(result.Nodes.Items), len(kept))
	}
	for i, n := range kept {
		if !reflect.DeepEqual(result.Nodes.Items[i], n.decoded) {
			t.Errorf("node %q came back as another:\n%s\n%s", n.decoded.Name, n.raw, bare.Nodes.Items[i])
		}
		if !bytes.Equal(bare.Nodes.Items[i], []byte(n.raw)) {
			t.Errorf("node %q came back in other bytes:\n%s\n%s", n.decoded.Name, n.raw, bare.Nodes.Items[i])
		}
	}
}

func checkPrioritize(t *testing.T, r request) {
	t.Helper()
	pod := r.decodedPod(t)
	var result extenderv1.HostPriorityList
	call(t, "prioritize", r.body(), &result)
	// To kube-scheduler a host that is not listed has 0.
	got, want := map[string]int64{}, map[string]int64{}
	for _, n := range r.nodes {
		got[n.decoded.Name] = 0
		want[n.decoded.Name] = score(pod, &n.decoded)
	}
	for _, host := range result {
		got[host.Host] += host.Score
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %d scores, not the %d expected; the first are %v", len(result), len(want), result[:min(5, len(result))])
	}
	if len(result) > 0 && len(result) != len(r.nodes) {
		t.Errorf("%d of %d nodes have a score", len(result), len(r.nodes))
	}
}

var podVariants = map[string]func(string) string{
	"as recorded":       func(pod string) string { return pod },
	"without high-comm": func(pod string) string { return strings.Replace(pod, `"high-comm"`, `"other"`, 1) },
	"by LabelMatch": func(pod string) string {
		return strings.NewReplacer(`"default-scheduler"`, `"label-match"`, `"high-comm":"true"`, `"team":"ml"`).Replace(pod)
	},
	"of another scheduler": func(pod string) string {
		return strings.Replace(pod, `"default-scheduler"`, `"someone-else"`, 1)
	},
}

func TestEveryRecordedFilterAndPrioritizeRequestIsAnsweredAsGoWouldAnswerIt(t *testing.T) {
	for _, mode := range []string{"full", "names"} {
		for _, name := range wireNames(t, mode, "filter|prioritize") {
			for variant, change := range podVariants {
				for _, lower := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/%s/lower=%v", mode, name, variant, lower), func(t *testing.T) {
						r := recorded(t, mode, name)
						r.pod, r.lower = change(r.pod), lower
						// Each variant is a pod of its own: what one pod is told may not change at once.
						r.pod = strings.Replace(r.pod, `"uid":"`, `"uid":"`+strings.ReplaceAll(variant, " ", "-"), 1)
						if strings.HasPrefix(name, "prioritize") {
							checkPrioritize(t, r)
						} else {
							checkFilter(t, r)
						}
					})
				}
			}
		}
	}
}

func wireNames(t *testing.T, mode, verbs string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(wireFolder, mode, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		if regexp.MustCompile("^(" + verbs + ")").MatchString(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Fatalf("nothing recorded of %s in mode %s", verbs, mode)
	}
	return names
}

func TestTheRecordedBodiesThemselvesAreAnswered(t *testing.T) {
	for _, mode := range []string{"full", "names"} {
		for _, name := range wireNames(t, mode, ".*") {
			t.Run(mode+"/"+name, func(t *testing.T) {
				verb, _, _ := strings.Cut(name, "-")
				into := map[string]any{
					"filter":     &extenderv1.ExtenderFilterResult{},
					"prioritize": &extenderv1.HostPriorityList{},
					"preempt":    &extenderv1.ExtenderPreemptionResult{},
					"bind":       &extenderv1.ExtenderBindingResult{},
				}[verb]
				answer := call(t, verb, readWire(t, mode, name), into)
				if verb != "prioritize" {
					checkKeys(t, answer, reflect.ValueOf(into).Elem().Interface())
				}
				switch result := into.(type) {
				case *extenderv1.ExtenderFilterResult:
					if result.Error != "" || len(result.FailedAndUnresolvableNodes) == 0 {
						t.Errorf("the recorded high-comm pod and nodes without RDMA: %+v", result)
					}
				case *extenderv1.ExtenderBindingResult:
					checkBound(t, readWire(t, mode, name), result)
				}
			})
		}
	}
}

func checkBound(t *testing.T, body []byte, result *extenderv1.ExtenderBindingResult) {
	t.Helper()
	var args extenderv1.ExtenderBindingArgs
	if err := json.Unmarshal(body, &args); err != nil {
		t.Fatal(err)
	}
	if result.Error != "" {
		t.Fatalf("Error: %s", result.Error)
	}
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/binding", args.PodNamespace, args.PodName)
	api.lock.Lock()
	binding := api.bindings[path]
	api.lock.Unlock()
	if binding.UID != args.PodUID || binding.Target.Name != args.Node {
		t.Errorf("the API got %+v for %+v", binding, args)
	}
}

var generatedPods = map[string]string{
	"high-comm":         `{"metadata":{"name":"p","uid":"1","labels":{"high-comm":""}},"spec":{"schedulerName":"default-scheduler"}}`,
	"no label":          `{"metadata":{"name":"p","uid":"2"},"spec":{"schedulerName":"default-scheduler"}}`,
	"team ml":           `{"metadata":{"name":"p","uid":"3","labels":{"te\u0061m":"m\u006c"}},"spec":{"schedulerName":"label-match"}}`,
	"of no one's":       `{"metadata":{"name":"p","uid":"4","labels":{"high-comm":"1"}},"spec":{"schedulerName":"no-one"}}`,
	"with odd contents": `{"metadata":{"name":"<p>&\"\\ \u4e2d😀","labels":{"high-comm":null}},"spec":{"schedulerName":"default-scheduler","containers":[]},"status":{}}`,
}

func TestAThousandGeneratedNodesComeBackAsTheyWent(t *testing.T) {
	nodes := generate(t, seed, generatedNodes)
	for name, pod := range generatedPods {
		for _, names := range []bool{false, true} {
			for _, lower := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/names=%v/lower=%v", name, names, lower), func(t *testing.T) {
					r := request{pod: pod, nodes: nodes, names: names, lower: lower}
					checkFilter(t, r)
					checkPrioritize(t, r)
				})
			}
		}
	}
}

func TestChangedNodesAmongKnownOnesComeBackAsTheyWent(t *testing.T) {
	nodes := generate(t, seed, generatedNodes)
	checkFilter(t, request{pod: generatedPods["high-comm"], nodes: nodes})
	// Other nodes under known names, and a shuffled order.
	for i, other := range generate(t, seed+1, generatedNodes) {
		if i%100 == 0 {
			nodes[i] = other
		}
	}
	g := generator{newRand()}
	g.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	for name, pod := range generatedPods {
		t.Run(name, func(t *testing.T) {
			checkFilter(t, request{pod: pod, nodes: nodes})
			checkPrioritize(t, request{pod: pod, nodes: nodes[:100]})
		})
	}
}
