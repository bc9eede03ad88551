// Command apiserver stands in for kube-apiserver: it lists the nodes and pods of files, in pages as
// requested, and keeps watches open. POST /relist/pods makes the client list pods again: it ends the
// watches well, since a client lists less often after failures in a row, and then the next with an
// error.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	pause   = time.Millisecond
	version = "100"
	gone    = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}` + "\n"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address")
	nodes := flag.String("nodes", "", "file with a NodeList")
	pods := flag.String("pods", "", "file with a PodList; none: no pods")
	flag.Parse()
	serve("nodes", "NodeList", *nodes)
	if *pods != "" {
		serve("pods", "PodList", *pods)
	}
	http.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe(*listen, nil))
}

// serve lists and watches the objects of a file as a resource, such as nodes.
func serve(resource, kind, file string) {
	items, err := read(file)
	if err != nil {
		log.Fatal(err)
	}
	server := &server{kind: kind, items: items, over: make(chan struct{})}
	http.HandleFunc("GET /api/v1/"+resource, server.answer)
	http.HandleFunc("POST /relist/"+resource, func(http.ResponseWriter, *http.Request) {
		server.endWatches("")
		server.endWatches(gone)
	})
	http.HandleFunc("GET /lists/begun/"+resource, server.counted(func() int { return server.begun }))
	http.HandleFunc("GET /lists/ended/"+resource, server.counted(func() int { return server.ended }))
}

func read(path string) ([]json.RawMessage, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	err = json.Unmarshal(content, &list)
	return list.Items, err
}

type server struct {
	kind  string
	items []json.RawMessage

	lock    sync.Mutex
	over    chan struct{}
	last    string
	watches int
	begun   int
	ended   int
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "" {
		s.watch(w, r)
		return
	}
	first, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	s.page(w, first, limit)
}

func (s *server) page(w http.ResponseWriter, first, limit int) {
	if first == 0 {
		s.count(&s.begun)
	}
	end, after := len(s.items), ""
	if limit > 0 && first+limit < end {
		end = first + limit
		after = strconv.Itoa(end)
	}
	_, _ = fmt.Fprintf(w, `{"kind":%q,"apiVersion":"v1","metadata":{"resourceVersion":%q,"continue":%q},"items":[`, s.kind, version, after)
	for i, item := range s.items[first:end] {
		if i > 0 {
			_, _ = w.Write([]byte{','})
		}
		_, _ = w.Write(item)
	}
	_, _ = w.Write([]byte("]}"))
	if end == len(s.items) {
		s.count(&s.ended)
	}
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	s.lock.Lock()
	over := s.over
	s.watches++
	s.lock.Unlock()
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	select {
	case <-over:
		_, _ = w.Write([]byte(s.last))
	case <-r.Context().Done():
	}
}

// endWatches waits until a watch is open, and ends all watches with the bytes in last.
func (s *server) endWatches(last string) {
	for !s.tryEndWatches(last) {
		time.Sleep(pause)
	}
}

func (s *server) tryEndWatches(last string) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.watches == 0 {
		return false
	}
	s.last, s.watches = last, 0
	close(s.over)
	s.over = make(chan struct{})
	return true
}

func (s *server) count(lists *int) {
	s.lock.Lock()
	defer s.lock.Unlock()
	*lists++
}

func (s *server) counted(lists func() int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s.lock.Lock()
		defer s.lock.Unlock()
		_, _ = fmt.Fprint(w, lists())
	}
}
