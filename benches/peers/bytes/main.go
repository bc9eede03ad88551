// Command bytes serves an extender that answers like the plain Go extender but decodes no JSON: the
// server finds names between quotes, looks them up in a given set, and copies bytes. It reads only
// requests that kube-scheduler writes. With -pass it keeps every node and scores none.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

var (
	podLabel  = []byte(`"high-comm":`)
	atNodes   = []byte(`,"Nodes":`)
	atNames   = []byte(`,"NodeNames":`)
	itemsHead = []byte(`"items":[`)
	nodeHead  = []byte(`{"metadata":{"name":"`)
	nodeBreak = []byte(`},{"metadata":{"name":"`)
	reason    = []byte(`:"Node does not support RDMA"`)
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8888", "address")
	good := flag.String("good", "", "file with the names of the nodes to keep, one a line")
	pass := flag.Bool("pass", false, "keep every node and score none")
	flag.Parse()
	filter, prioritize := passFilter, passPrioritize
	if !*pass {
		names, err := readNames(*good)
		if err != nil {
			log.Fatal(err)
		}
		filter, prioritize = names.filter, names.prioritize
	}
	http.HandleFunc("POST /filter", answering(filter))
	http.HandleFunc("POST /prioritize", answering(prioritize))
	http.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe(*listen, nil))
}

// write appends the answer to a request.
type write func(answer []byte, request request) []byte

func answering(write write) http.HandlerFunc {
	buffers := sync.Pool{New: func() any { return &[2][]byte{} }}
	return func(w http.ResponseWriter, r *http.Request) {
		used, _ := buffers.Get().(*[2][]byte)
		defer buffers.Put(used)
		if int64(cap(used[0])) < r.ContentLength {
			used[0] = make([]byte, r.ContentLength)
		}
		body := used[0][:max(r.ContentLength, 0)]
		if _, err := io.ReadFull(r.Body, body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		request, err := parsed(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		used[1] = write(used[1][:0], request)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(used[1])))
		_, _ = w.Write(used[1])
	}
}

// request tells whether the pod of a body wants RDMA, and has the bytes of the nodes and of the
// names. One of nodes and names is null.
type request struct {
	wants bool
	nodes []byte
	names []byte
}

func parsed(body []byte) (request, error) {
	nodes := bytes.Index(body, atNodes)
	names := bytes.LastIndex(body, atNames)
	if nodes < 0 || names < nodes {
		return request{}, fmt.Errorf("not a request of kube-scheduler: %.60s", body)
	}
	end := bytes.LastIndexByte(body, '}')
	return request{
		wants: bytes.Contains(body[:nodes], podLabel),
		nodes: body[nodes+len(atNodes) : names],
		names: body[names+len(atNames) : end],
	}, nil
}

func passFilter(answer []byte, request request) []byte {
	answer = append(append(answer, `{"Nodes":`...), request.nodes...)
	answer = append(append(answer, `,"NodeNames":`...), request.names...)
	return append(answer, `,"FailedNodes":null,"FailedAndUnresolvableNodes":null,"Error":""}`...)
}

func passPrioritize(answer []byte, _ request) []byte {
	return append(answer, "[]"...)
}

// goodNames is the set of the names of the nodes with RDMA.
type goodNames map[string]struct{}

func readNames(path string) (goodNames, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	good := goodNames{}
	for _, name := range strings.Fields(string(content)) {
		good[name] = struct{}{}
	}
	return good, nil
}

func (good goodNames) has(name []byte) bool {
	_, found := good[string(name)]
	return found
}

func (good goodNames) filter(answer []byte, request request) []byte {
	if !request.wants {
		return passFilter(answer, request)
	}
	if bytes.Equal(request.nodes, []byte("null")) {
		return good.filterNames(answer, request.names)
	}
	return good.filterNodes(answer, request.nodes)
}

func (good goodNames) filterNames(answer, names []byte) []byte {
	answer = append(answer, `{"Nodes":null,"NodeNames":[`...)
	for name := range quoted(names) {
		if good.has(name) {
			answer = append(appendQuoted(answer, name), ',')
		}
	}
	answer = append(withoutComma(answer), `],"FailedNodes":null,"FailedAndUnresolvableNodes":{`...)
	for name := range quoted(names) {
		if !good.has(name) {
			answer = append(append(appendQuoted(answer, name), reason...), ',')
		}
	}
	return append(withoutComma(answer), `},"Error":""}`...)
}

func (good goodNames) filterNodes(answer, nodes []byte) []byte {
	answer = append(answer, `{"Nodes":{"metadata":{},"items":[`...)
	for name, node := range objects(nodes) {
		if good.has(name) {
			answer = append(append(answer, node...), ',')
		}
	}
	answer = append(withoutComma(answer), `]},"NodeNames":null,"FailedNodes":null,"FailedAndUnresolvableNodes":{`...)
	for name := range objects(nodes) {
		if !good.has(name) {
			answer = append(append(appendQuoted(answer, name), reason...), ',')
		}
	}
	return append(withoutComma(answer), `},"Error":""}`...)
}

func (good goodNames) prioritize(answer []byte, request request) []byte {
	score := func(name []byte) {
		points := `,"Score":0},`
		if request.wants && good.has(name) {
			points = `,"Score":10},`
		}
		answer = append(appendQuoted(append(answer, `{"Host":`...), name), points...)
	}
	answer = append(answer, '[')
	if bytes.Equal(request.nodes, []byte("null")) {
		for name := range quoted(request.names) {
			score(name)
		}
	} else {
		for name := range objects(request.nodes) {
			score(name)
		}
	}
	return append(withoutComma(answer), ']')
}

// quoted yields each text between quotes; names of nodes have no escaped characters.
func quoted(names []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for {
			start := bytes.IndexByte(names, '"')
			if start < 0 {
				return
			}
			names = names[start+1:]
			end := bytes.IndexByte(names, '"')
			if !yield(names[:end]) {
				return
			}
			names = names[end+1:]
		}
	}
}

// objects yields the name and the bytes of each node in a NodeList that Go has written.
func objects(nodes []byte) func(func([]byte, []byte) bool) {
	return func(yield func([]byte, []byte) bool) {
		rest := nodes[bytes.Index(nodes, itemsHead)+len(itemsHead):]
		rest = rest[:bytes.LastIndexByte(rest, ']')]
		for len(rest) > 0 {
			node := rest
			if end := bytes.Index(rest, nodeBreak); end >= 0 {
				node = rest[:end+1]
				rest = rest[end+2:]
			} else {
				rest = nil
			}
			name := node[len(nodeHead):]
			if !yield(name[:bytes.IndexByte(name, '"')], node) {
				return
			}
		}
	}
}

func appendQuoted(to, name []byte) []byte {
	return append(append(append(to, '"'), name...), '"')
}

func withoutComma(written []byte) []byte {
	return bytes.TrimSuffix(written, []byte{','})
}
