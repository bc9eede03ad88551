// Package stopwatch times calls on demand: one order a line on standard input, one report a line
// on standard output. The program that sends the orders decides when each program measures, so
// that several programs can be timed in turn.
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

// Order says which call to time, and how often or for how long.
type Order struct {
	// Work is the name of a work that the program knows.
	Work string `json:"work"`
	// URL is where a program that calls servers sends the request.
	URL string `json:"url"`
	// Body is the path of the file with the request.
	Body string `json:"body"`
	// Nodes is the path of the file with the NodeList in which names of nodes are looked up.
	Nodes string `json:"nodes"`
	// Expected is the path of the file with the expected answer; empty: any answer is right.
	Expected string `json:"expected"`
	// AnswerTo is the path of the file to which the last answer is written; empty: none.
	AnswerTo string `json:"answer_to"`
	// Calls is the least number of calls to time.
	Calls int `json:"calls"`
	// Seconds is the least time for which calls are made.
	Seconds float64 `json:"seconds"`
	// Every is the time in seconds from the start of a call to that of the next; 0: no pause.
	Every float64 `json:"every"`
	// NumberAt is where in the body a program that calls servers writes the number of the call, in
	// eight digits, so that each call is about another pod; 0: all calls have the same body.
	NumberAt int `json:"number_at"`
}

// Report has the seconds of each call, or the error that ended the order.
type Report struct {
	Seconds []float64 `json:"seconds"`
	Error   string    `json:"error"`
}

// Prepare returns the call that an order asks for; loaded files may be kept for later orders. The
// answer of a call is used before the next call, which may overwrite the answer.
type Prepare func(Order) (func() ([]byte, error), error)

// Serve carries out the orders from in, and writes their reports to out, until in ends.
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
		due := time.Duration(float64(len(seconds)) * order.Every * float64(time.Second))
		time.Sleep(time.Until(began.Add(due)))
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

// Files holds the contents of files that were read, by path.
type Files map[string][]byte

// Read returns the content of a file; nil if the path is empty.
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
