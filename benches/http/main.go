// Command http calls servers as kube-scheduler calls its extenders: with net/http, kept connections
// and a Content-Length. The command takes orders of package stopwatch from standard input.
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"kubextend.dev/benches/stopwatch"
)

const timeout = 30 * time.Second

func main() {
	files := stopwatch.Files{}
	// Source: kubernetes v1.36 pkg/scheduler/extender.go makeTransport
	asking := &asking{client: &http.Client{
		Transport: utilnet.SetTransportDefaults(&http.Transport{}),
		Timeout:   timeout,
	}}
	prepare := func(order stopwatch.Order) (func() ([]byte, error), error) {
		body, err := files.Read(order.Body)
		if err != nil {
			return nil, err
		}
		if body == nil {
			return func() ([]byte, error) { return asking.get(order.URL) }, nil
		}
		return func() ([]byte, error) {
			if order.NumberAt > 0 {
				asking.number++
				copy(body[order.NumberAt:], fmt.Sprintf("%08d", asking.number))
			}
			return asking.post(order.URL, body)
		}, nil
	}
	if err := stopwatch.Serve(os.Stdin, os.Stdout, prepare); err != nil {
		log.Fatal(err)
	}
}

type asking struct {
	client *http.Client
	// A buffer for all answers, since the client's work on answers is not what is compared.
	answer []byte
	// How many calls had a number.
	number int
}

func (a *asking) post(url string, body []byte) ([]byte, error) {
	request, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	return a.ask(request)
}

func (a *asking) get(url string) ([]byte, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return a.ask(request)
}

func (a *asking) ask(request *http.Request) ([]byte, error) {
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if err := a.read(response.Body); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s %.200s", request.URL, response.Status, a.answer)
	}
	return a.answer, nil
}

func (a *asking) read(body io.Reader) error {
	a.answer = a.answer[:0]
	for {
		if len(a.answer) == cap(a.answer) {
			a.answer = append(a.answer, 0)[:len(a.answer)]
		}
		n, err := body.Read(a.answer[len(a.answer):cap(a.answer)])
		a.answer = a.answer[:len(a.answer)+n]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
