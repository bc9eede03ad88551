// Command oracle records what Kubernetes' own Go code answers, for the tests of the Rust core.
//
// Run it in tests/go; it writes tests/data/oracle/*.json, the same bytes every time:
//
//	go run ./oracle
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

const folder = "../data/oracle"

// file is a JSON object: its source, and lists that are written one item a line, so that a changed
// answer is a changed line.
type file struct {
	source string
	lists  []section
}

type section struct {
	name  string
	items []any
}

func main() {
	for name, record := range map[string]func() file{
		"selectors":    selectors,
		"affinity":     affinity,
		"tolerations":  tolerations,
		"quantities":   quantities,
		"pod_requests": podRequests,
		"qos":          qosClasses,
	} {
		path := filepath.Join(folder, name+".json")
		if err := os.WriteFile(path, record().bytes(), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

func (f file) bytes() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\"source\": %q", f.source)
	for _, list := range f.lists {
		lines := make([]string, len(list.items))
		for i, item := range list.items {
			lines[i] = encoded(item)
		}
		fmt.Fprintf(&out, ",\n%q: [\n%s\n]", list.name, strings.Join(lines, ",\n"))
	}
	out.WriteString("}\n")
	return out.Bytes()
}

func encoded(item any) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(item); err != nil {
		panic(err)
	}
	return strings.TrimSpace(out.String())
}

func list[T any](name string, items []T) section {
	boxed := make([]any, len(items))
	for i, item := range items {
		boxed[i] = item
	}
	return section{name, boxed}
}

// version of the module that answered.
func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return module + " " + dependency.Version
		}
	}
	panic("not linked: " + module)
}

// chance is the same sequence in every run.
func chance(seed uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, 0))
}

func pick[T any](random *rand.Rand, items []T) T {
	return items[random.IntN(len(items))]
}

func some[T any](random *rand.Rand, items []T, most int) []T {
	chosen := make([]T, random.IntN(most+1))
	for i := range chosen {
		chosen[i] = pick(random, items)
	}
	return chosen
}

func sentence(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	return &text
}
