// Package stopwatch times calls on demand: one order a line on standard input, one report a line
// on standard output. Whoever orders decides whose turn it is, so that several such programs and
// the one that orders can take turns.
package stopwatch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// Order is what to time, how often or for how long.
type Order struct {
	// Work is one of those that the program knows.
	Work string `json:"work"`
	// URL is asked, by a program that asks servers.
	URL string `json:"url"`
	// Body is the file with the request.
	Body string `json:"body"`
	// Nodes is the file with the NodeList that names stand for.
	Nodes string `json:"nodes"`
	// Expected is the file with the answer of each call; empty: any.
	Expected string `json:"expected"`
	// AnswerTo is the file that the last answer is written to; empty: none.
	AnswerTo string `json:"answer_to"`
	// Calls is how many calls are timed at least.
	Calls int `json:"calls"`
	// Seconds is how long calls are timed at least.
	Seconds float64 `json:"seconds"`
}

// Report is how long each call took, or why there is nothing to report.
type Report struct {
	Seconds []float64 `json:"seconds"`
	Error   string    `json:"error"`
}

// Prepare makes the call that an order asks for; what it loads it keeps for later orders. The
// answer is read before the next call and may be overwritten by it.
type Prepare func(Order) (func() ([]byte, error), error)

// Serve takes orders until its input ends.
func Serve(in io.Reader, out io.Writer, prepare Prepare) error {
	files := Files{}
	reports := json.NewEncoder(out)
	orders := bufio.NewScanner(in)
	for orders.Scan() {
		var order Order
		if err := json.Unmarshal(orders.Bytes(), &order); err != nil {
			return err
		}
		seconds, err := follow(order, prepare, files)
		report := Report{Seconds: seconds}
		if err != nil {
			report = Report{Error: err.Error()}
		}
		if err := reports.Encode(report); err != nil {
			return err
		}
	}
	return orders.Err()
}

func follow(order Order, prepare Prepare, files Files) ([]float64, error) {
	call, err := prepare(order)
	if err != nil {
		return nil, err
	}
	expected, err := files.Read(order.Expected)
	if err != nil {
		return nil, err
	}
	var seconds []float64
	var answer []byte
	began := time.Now()
	for len(seconds) < order.Calls || time.Since(began).Seconds() < order.Seconds {
		start := time.Now()
		answer, err = call()
		took := time.Since(start)
		if err != nil {
			return nil, err
		}
		if expected != nil && !bytes.Equal(answer, expected) {
			return nil, fmt.Errorf("%s%s: %d bytes, not the expected answer of %d", order.Work, order.URL, len(answer), len(expected))
		}
		seconds = append(seconds, took.Seconds())
	}
	if order.AnswerTo != "" {
		return seconds, os.WriteFile(order.AnswerTo, answer, 0o600)
	}
	return seconds, nil
}

// Files keeps what was read once.
type Files map[string][]byte

// Read returns the content of a file; nil where there is no path.
func (files Files) Read(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	if content, found := files[path]; found {
		return content, nil
	}
	content, err := os.ReadFile(path)
	if err == nil {
		files[path] = content
	}
	return content, err
}
