// Command inprocess times the plain Go extender without HTTP, from request bytes to answer bytes.
// The command takes orders of package stopwatch from standard input.
package main

import (
	"fmt"
	"log"
	"os"

	"kubextend.dev/benches/peers/plain"
	"kubextend.dev/benches/stopwatch"
)

func main() {
	files := stopwatch.Files{}
	stores := map[string]plain.Nodes{"": nil}
	prepare := func(order stopwatch.Order) (func() ([]byte, error), error) {
		body, err := files.Read(order.Body)
		if err != nil {
			return nil, err
		}
		nodes, found := stores[order.Nodes]
		if !found {
			if nodes, err = plain.ReadNodes(order.Nodes); err != nil {
				return nil, err
			}
			stores[order.Nodes] = nodes
		}
		switch order.Work {
		case "filter":
			return func() ([]byte, error) { return plain.Answer(body, nodes.Filter) }, nil
		case "prioritize":
			return func() ([]byte, error) { return plain.Answer(body, nodes.Prioritize) }, nil
		}
		return nil, fmt.Errorf("no work %q", order.Work)
	}
	if err := stopwatch.Serve(os.Stdin, os.Stdout, prepare); err != nil {
		log.Fatal(err)
	}
}
