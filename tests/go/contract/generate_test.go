package contract

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"

	v1 "k8s.io/api/core/v1"
)

const generatedNodes = 1000

// node is one node object: the bytes that are sent, and what Go reads from them.
type node struct {
	raw     string
	decoded v1.Node
}

// object keeps the order of its fields, which a map would not.
type object []field

type field struct {
	key   string
	value any
}

// raw is JSON that is written as it is.
type raw string

// generator writes node objects as no sane client would, but as JSON and the API types allow.
type generator struct{ *rand.Rand }

func generate(t testing.TB, seed uint64, count int) []node {
	t.Helper()
	g := generator{rand.New(rand.NewPCG(seed, 1))}
	nodes := make([]node, count)
	for i := range nodes {
		nodes[i] = parsed(t, g.json(g.node(i)))
	}
	return nodes
}

func parsed(t testing.TB, text string) node {
	t.Helper()
	n := node{raw: text}
	if err := json.Unmarshal([]byte(text), &n.decoded); err != nil {
		t.Fatalf("the generator wrote what Go does not read: %v\n%s", err, text)
	}
	return n
}

func (g generator) node(i int) object {
	name := fmt.Sprintf("node-%04d", i)
	if g.IntN(4) == 0 {
		name += g.text(6)
	}
	metadata := object{{"name", name}, {"uid", fmt.Sprintf("uid-%d", i)}, {"resourceVersion", fmt.Sprint(i)}}
	metadata = append(metadata, g.maybe("labels", g.labels())...)
	metadata = append(metadata, g.maybe("annotations", g.texts(4))...)
	metadata = append(metadata, g.maybe("managedFields", g.managedFields())...)
	metadata = append(metadata, g.maybe("finalizers", []any{g.text(9)})...)
	metadata = append(metadata, g.maybe("creationTimestamp", "2026-11-21T01:48:35Z")...)
	parts := object{{"metadata", g.shuffled(metadata)}}
	parts = append(parts, g.maybe("spec", g.spec())...)
	parts = append(parts, g.maybe("status", g.status())...)
	parts = append(parts, g.maybe("kind", "Node")...)
	parts = append(parts, g.maybe("apiVersion", "v1")...)
	if g.IntN(5) == 0 {
		parts = append(parts, field{"fieldOfTheFuture", g.anything(4)})
	}
	return g.shuffled(parts)
}

func (g generator) labels() object {
	labels := g.texts(6)
	for _, known := range []struct {
		key    string
		values []string
	}{
		{rdmaLabel, []string{"true", "true", "false", "TRUE", ""}},
		{"zone", []string{"a", "b", "c", "<&>", ""}},
		{"disk", []string{"ssd", "hdd"}},
		{"cores", []string{"8", "16", "many"}},
	} {
		if g.IntN(3) > 0 {
			labels = append(labels, field{known.key, known.values[g.IntN(len(known.values))]})
		}
	}
	return g.shuffled(labels)
}

func (g generator) spec() object {
	spec := g.maybe("podCIDR", "10.0.0.0/24")
	spec = append(spec, g.maybe("providerID", "aws:///"+g.text(8))...)
	spec = append(spec, g.maybe("unschedulable", g.IntN(2) == 0)...)
	taints := []any{}
	for range g.IntN(3) {
		taint := object{{"key", g.text(5)}, {"effect", "PreferNoSchedule"}}
		taints = append(taints, append(taint, g.maybe("value", g.text(5))...))
	}
	return append(spec, g.maybe("taints", taints)...)
}

func (g generator) status() object {
	// Go reads a quantity's bytes as they are: an escape in one is an error.
	resources := object{{"cpu", raw(`"31850m"`)}, {"memory", raw("135036473344")}, {"pods", raw("110")}}
	resources = append(resources, g.maybe("nvidia.com/gpu", raw(`"8"`))...)
	condition := object{{"type", "Ready"}, {"status", "True"}, {"message", g.text(20)}, {"lastHeartbeatTime", "2026-11-21T01:48:35Z"}}
	image := object{{"names", []any{g.text(30), g.text(3)}}, {"sizeBytes", raw("123456789")}}
	status := g.maybe("allocatable", resources)
	status = append(status, g.maybe("capacity", resources)...)
	status = append(status, g.maybe("conditions", []any{condition, condition})...)
	status = append(status, g.maybe("images", []any{image, object{}})...)
	status = append(status, g.maybe("nodeInfo", object{{"kernelVersion", g.text(9)}})...)
	return g.shuffled(append(status, g.maybe("volumesInUse", []any{})...))
}

func (g generator) managedFields() []any {
	fields := object{{"f:metadata", object{{"f:labels", object{{".", object{}}, {"f:" + g.text(5), object{}}}}}}}
	return []any{object{{"manager", g.text(8)}, {"operation", "Update"}, {"fieldsType", "FieldsV1"}, {"fieldsV1", fields}}}
}

// maybe leaves the field out, makes it null or empty, or takes it.
func (g generator) maybe(key string, value any) object {
	_, isObject := value.(object)
	switch g.IntN(8) {
	case 0, 1:
		return nil
	case 2:
		return object{{key, nil}}
	case 3:
		if isObject {
			return object{{key, object{}}}
		}
	}
	return object{{key, value}}
}

func (g generator) texts(most int) object {
	fields := object{}
	for i := range g.IntN(most + 1) {
		fields = append(fields, field{fmt.Sprint(g.text(5), i), g.text(12)})
	}
	return fields
}

func (g generator) text(most int) string {
	letters := []rune("abcXYZ019-._/<>&'\"\\\b\f\n\r\t\x00\x1f\x7f\u00e9\u0130\u017f\u212a\u4e2d\u6587\u2028\u2029\ufeff\ufffd\uffff\U0001f600\U0010ffff ")
	chosen := make([]rune, g.IntN(most+1))
	for i := range chosen {
		chosen[i] = letters[g.IntN(len(letters))]
	}
	return string(chosen)
}

func (g generator) anything(depth int) any {
	if depth == 0 {
		return raw([]string{"0", "-1.5e-300", "null", "true", `"\ud800"`}[g.IntN(5)])
	}
	return object{{g.text(3), []any{g.anything(depth - 1), g.anything(depth - 1)}}}
}

func (g generator) shuffled(fields object) object {
	g.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	return fields
}

func (g generator) json(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return fmt.Sprint(v)
	case raw:
		return string(v)
	case string:
		return g.quoted(v)
	case []any:
		parts := make([]string, len(v))
		for i, part := range v {
			parts[i] = g.blank() + g.json(part) + g.blank()
		}
		return "[" + strings.Join(parts, ",") + "]"
	case object:
		parts := make([]string, len(v))
		for i, f := range v {
			parts[i] = g.blank() + g.quoted(f.key) + g.blank() + ":" + g.blank() + g.json(f.value) + g.blank()
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	panic(fmt.Sprintf("no JSON for %T", value))
}

func (g generator) blank() string {
	return []string{"", "", "", "", "", "", " ", "\n\t\r "}[g.IntN(8)]
}

// quoted escapes what must be escaped and, now and then, what need not be.
func (g generator) quoted(text string) string {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '/': `\/`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range text {
		escape, isShort := short[r]
		mustEscape := r < ' ' || r == '"' || r == '\\'
		switch choice := g.IntN(10); {
		case isShort && (choice < 7 && mustEscape || choice == 0):
			out.WriteString(escape)
		case mustEscape || choice == 1:
			out.WriteString(g.unicodeEscape(r))
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}

func (g generator) unicodeEscape(r rune) string {
	format := []string{`\u%04x`, `\u%04X`}[g.IntN(2)]
	if r > 0xffff {
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(format+format, high, low)
	}
	return fmt.Sprintf(format, r)
}
