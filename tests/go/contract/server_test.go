// Package contract reads every answer of a running kubextend with kube-scheduler's own types.
//
// tests/contract/test_go_reads_the_answers.py starts kubextend and runs this with
// KUBEXTEND_URL (where it serves) and KUBERNETES_API (the address it expects an API at).
package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	readyTimeout = 60 * time.Second
	wireFolder   = "../../data/wire"
)

var (
	kubextend = os.Getenv("KUBEXTEND_URL")
	api       = &apiServer{bindings: map[string]v1.Binding{}}
)

// apiServer is as much of kube-apiserver as kubextend needs to know nodes and to bind pods.
type apiServer struct {
	lock     sync.Mutex
	initial  []byte
	bindings map[string]v1.Binding
}

func TestMain(m *testing.M) {
	address := os.Getenv("KUBERNETES_API")
	if kubextend == "" || address == "" {
		log.Fatal("KUBEXTEND_URL and KUBERNETES_API say where kubextend is and looks for an API")
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	api.initial = eventsOf(watched())
	go func() { log.Fatal(http.Serve(listener, api)) }()
	waitUntilReady()
	os.Exit(m.Run())
}

func waitUntilReady() {
	var last string
	for deadline := time.Now().Add(readyTimeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		response, err := http.Get(kubextend + "/readyz?verbose")
		if err != nil {
			last = err.Error()
			continue
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return
		}
		last = string(body)
	}
	log.Fatalf("kubextend is not ready: %s", last)
}

// watched are the nodes that kubextend knows by name: the recorded and the generated ones.
func watched() []node {
	nodes := generate(fatal{}, seed, generatedNodes)
	for _, n := range recorded(fatal{}, "full", "filter").nodes {
		nodes = append(nodes, n)
	}
	return nodes
}

// fatal lets the helpers of tests end the program before any test runs.
type fatal struct{ testing.TB }

func (fatal) Helper()                         {}
func (fatal) Fatal(args ...any)               { log.Fatal(args...) }
func (fatal) Fatalf(text string, args ...any) { log.Fatalf(text, args...) }

// eventsOf are the initial events of a watch: each node, and the bookmark after the last of them.
func eventsOf(nodes []node) []byte {
	var events bytes.Buffer
	for _, n := range nodes {
		events.WriteString(`{"type":"ADDED","object":`)
		// Each event is one line.
		if err := json.Compact(&events, []byte(n.raw)); err != nil {
			log.Fatal(err)
		}
		events.WriteString("}\n")
	}
	events.WriteString(`{"type":"BOOKMARK","object":{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"100","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n")
	return events.Bytes()
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/api/v1/nodes" && r.URL.Query().Get("watch") != "":
		_, _ = w.Write(a.initial)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case strings.HasSuffix(r.URL.Path, "/binding") && r.Method == http.MethodPost:
		a.bind(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}
}

func (a *apiServer) bind(w http.ResponseWriter, r *http.Request) {
	var binding v1.Binding
	if err := json.NewDecoder(r.Body).Decode(&binding); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a.lock.Lock()
	a.bindings[r.URL.Path] = binding
	a.lock.Unlock()
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success","code":201}`)
}

// call sends a body as kube-scheduler does and decodes the answer into what it decodes it into;
// here nothing may follow the value.
func call(t *testing.T, verb string, body []byte, into any) []byte {
	t.Helper()
	response, err := http.Post(kubextend+"/"+verb, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d: %s", verb, response.StatusCode, answer)
	}
	if response.ContentLength != int64(len(answer)) {
		t.Errorf("%s: Content-Length %d for %d bytes", verb, response.ContentLength, len(answer))
	}
	if got := response.Header.Get("Content-Type"); !strings.HasPrefix(got, "application/json") {
		t.Errorf("%s: Content-Type %q", verb, got)
	}
	decoder := json.NewDecoder(bytes.NewReader(answer))
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v: %.300s", verb, err, answer)
	}
	if decoder.InputOffset() != int64(len(answer)) {
		t.Errorf("%s: %d bytes after the value", verb, int64(len(answer))-decoder.InputOffset())
	}
	return answer
}

func readWire(t testing.TB, mode, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(wireFolder, mode, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return body
}
