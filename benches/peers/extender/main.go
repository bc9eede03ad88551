// Command extender serves the plain Go extender over net/http.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"kubextend.dev/benches/peers/plain"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8888", "address")
	list := flag.String("nodes", "", "file with the NodeList that names stand for")
	flag.Parse()
	nodes := plain.Nodes{}
	if *list != "" {
		var err error
		if nodes, err = plain.ReadNodes(*list); err != nil {
			log.Fatal(err)
		}
	}
	http.HandleFunc("POST /filter", answering(nodes.Filter))
	http.HandleFunc("POST /prioritize", answering(nodes.Prioritize))
	http.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe(*listen, nil))
}

func answering[Result any](decide func(*extenderv1.ExtenderArgs) Result) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var args extenderv1.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := json.Marshal(decide(&args))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}
}
