package main

import (
	"math/rand/v2"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

type affinityNode struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
}

type requiredCase struct {
	NodeSelector map[string]string     `json:"nodeSelector"`
	Terms        []v1.NodeSelectorTerm `json:"terms"`
	// One letter per node: y where the pod may go there.
	Matches string `json:"matches"`
}

type preferredCase struct {
	Terms  []v1.PreferredSchedulingTerm `json:"terms"`
	Error  *string                      `json:"error,omitempty"`
	Scores []int64                      `json:"scores,omitempty"`
}

var affinityNodes = []affinityNode{
	{"n1", map[string]string{}},
	{"n2", map[string]string{"zone": "a", "cores": "8"}},
	{"n3", map[string]string{"zone": "b", "cores": "16", "ssd": ""}},
	{"n4", map[string]string{"zone": "", "cores": "eight"}},
	{"n5", map[string]string{"zone": "-", "cores": "-8", "ssd": "true"}},
	{"", map[string]string{"zone": "a"}},
	{"", map[string]string{}},
	{"a.b", map[string]string{"metadata.name": "n1", "zone": "c", "cores": "007"}},
}

func requirement(key string, operator string, values ...string) v1.NodeSelectorRequirement {
	return v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOperator(operator), Values: values}
}

var expressions = []v1.NodeSelectorRequirement{
	requirement("zone", "In", "a"),
	requirement("zone", "In", "b", "a", "b"),
	requirement("zone", "In", ""),
	requirement("zone", "In"),
	requirement("zone", "In", "-"),
	requirement("zone", "In", "a", "-", "b_"),
	requirement("zone", "In", strings.Repeat("v", 64)),
	requirement("zone", "NotIn", "a"),
	requirement("zone", "NotIn", "a", "b", ""),
	requirement("zone", "NotIn"),
	requirement("zone", "NotIn", "a b"),
	requirement("zone", "Exists"),
	requirement("zone", "Exists", "a"),
	requirement("ssd", "Exists"),
	requirement("ssd", "DoesNotExist"),
	requirement("ssd", "DoesNotExist", ""),
	requirement("cores", "Gt", "8"),
	requirement("cores", "Gt", "7"),
	requirement("cores", "Lt", "8"),
	requirement("cores", "Lt", "016"),
	requirement("cores", "Gt", "-9"),
	requirement("cores", "Gt", "+7"),
	requirement("cores", "Gt", "7.5"),
	requirement("cores", "Gt", "seven"),
	requirement("cores", "Gt", ""),
	requirement("cores", "Gt"),
	requirement("cores", "Gt", "7", "7"),
	requirement("cores", "Lt", "9", "x"),
	requirement("cores", "Gt", "9223372036854775808"),
	requirement("cores", "Lt", "9223372036854775807"),
	requirement("zone", ""),
	requirement("zone", "in", "a"),
	requirement("zone", "Equals", "a"),
	requirement("zone", "=", "a"),
	requirement("", "Exists"),
	requirement("-zone", "DoesNotExist"),
	requirement("/zone", "DoesNotExist", "a"),
	requirement("example.com/zone", "DoesNotExist"),
	requirement("Example.com/zone", "DoesNotExist"),
	requirement("metadata.name", "In", "n1"),
}

var fieldRequirements = []v1.NodeSelectorRequirement{
	requirement("metadata.name", "In", "n1"),
	requirement("metadata.name", "In", "n2"),
	requirement("metadata.name", "In", ""),
	requirement("metadata.name", "In"),
	requirement("metadata.name", "In", "n1", "n2"),
	requirement("metadata.name", "NotIn", "n1"),
	requirement("metadata.name", "NotIn", ""),
	requirement("metadata.name", "NotIn"),
	requirement("metadata.name", "NotIn", "n1", "n1"),
	requirement("metadata.name", "Exists"),
	requirement("metadata.name", "Gt", "1"),
	requirement("metadata.name", "", "n1"),
	requirement("metadata.name", "in", "n1"),
	requirement("metadata.uid", "In", ""),
	requirement("metadata.uid", "In", "u"),
	requirement("metadata.uid", "NotIn", "u"),
	requirement("metadata.uid", "NotIn", ""),
	requirement("", "In", ""),
	requirement("", "NotIn", "n1"),
	requirement("no name", "In", "-"),
}

var nodeSelectors = []map[string]string{
	nil,
	{},
	{"zone": "a"},
	{"zone": ""},
	{"zone": "-"},
	{"ssd": ""},
	{"rack": ""},
	{"zone": "b", "ssd": ""},
	{"not a key": "a"},
}

func affinity() file {
	var required []requiredCase
	var preferred []preferredCase
	for _, selector := range nodeSelectors {
		required = append(required, answerRequired(selector, nil))
		required = append(required, answerRequired(selector, []v1.NodeSelectorTerm{}))
	}
	random := chance(2)
	for _, terms := range append(termLists(), randomTermLists(random)...) {
		required = append(required, answerRequired(pick(random, nodeSelectors[:5]), terms))
		required = append(required, answerRequired(nil, terms))
		preferred = append(preferred, answerPreferred(weighted(terms)))
	}
	return file{version("k8s.io/component-helpers"), []section{
		list("nodes", affinityNodes), list("required", required), list("preferred", preferred),
	}}
}

// termLists are every requirement alone, and each of the rules on terms once.
func termLists() [][]v1.NodeSelectorTerm {
	lists := [][]v1.NodeSelectorTerm{
		{},
		{{}},
		{{}, {}},
		{{MatchExpressions: []v1.NodeSelectorRequirement{}, MatchFields: []v1.NodeSelectorRequirement{}}},
		{{}, {MatchExpressions: expressions[:1]}},
		{{MatchExpressions: expressions[3:4]}, {MatchExpressions: expressions[:1]}},
		{{MatchExpressions: expressions[:1]}, {MatchExpressions: expressions[3:4]}},
		{{MatchExpressions: expressions[:1], MatchFields: fieldRequirements[3:4]}},
		{{MatchExpressions: expressions[3:4], MatchFields: fieldRequirements[:1]}},
		{{MatchExpressions: expressions[3:4], MatchFields: fieldRequirements[3:4]}},
	}
	for i := range expressions {
		lists = append(lists, []v1.NodeSelectorTerm{{MatchExpressions: expressions[i : i+1]}})
	}
	for i := range fieldRequirements {
		lists = append(lists, []v1.NodeSelectorTerm{{MatchFields: fieldRequirements[i : i+1]}})
	}
	return lists
}

// randomTermLists hold a wrong requirement less often than not.
func randomTermLists(random *rand.Rand) [][]v1.NodeSelectorTerm {
	lists := make([][]v1.NodeSelectorTerm, 120)
	for i := range lists {
		for range 1 + random.IntN(3) {
			lists[i] = append(lists[i], randomTerm(random))
		}
	}
	return lists
}

func randomTerm(random *rand.Rand) v1.NodeSelectorTerm {
	known := expressions
	if random.IntN(3) > 0 {
		known = validExpressions()
	}
	return v1.NodeSelectorTerm{
		MatchExpressions: some(random, known, 3),
		MatchFields:      some(random, fieldRequirements[:7], 1),
	}
}

func validExpressions() []v1.NodeSelectorRequirement {
	var valid []v1.NodeSelectorRequirement
	for _, expression := range expressions {
		terms := []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{expression}}}
		if _, err := nodeaffinity.NewNodeSelector(&v1.NodeSelector{NodeSelectorTerms: terms}); err == nil {
			valid = append(valid, expression)
		}
	}
	return valid
}

func weighted(terms []v1.NodeSelectorTerm) []v1.PreferredSchedulingTerm {
	preferred := make([]v1.PreferredSchedulingTerm, len(terms))
	for i, term := range terms {
		preferred[i] = v1.PreferredSchedulingTerm{Weight: int32((7 + 31*i) % 69), Preference: term}
	}
	return preferred
}

func answerRequired(nodeSelector map[string]string, terms []v1.NodeSelectorTerm) requiredCase {
	pod := &v1.Pod{Spec: v1.PodSpec{NodeSelector: nodeSelector}}
	if terms != nil {
		required := &v1.NodeSelector{NodeSelectorTerms: terms}
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: required,
		}}
	}
	answer := requiredCase{NodeSelector: nodeSelector, Terms: terms}
	parsed := nodeaffinity.GetRequiredNodeAffinity(pod)
	for _, node := range affinityNodes {
		matched, _ := parsed.Match(node.object())
		answer.Matches += letter(matched)
	}
	return answer
}

func answerPreferred(terms []v1.PreferredSchedulingTerm) preferredCase {
	answer := preferredCase{Terms: terms}
	parsed, err := nodeaffinity.NewPreferredSchedulingTerms(terms)
	if err != nil {
		answer.Error = sentence(err)
		return answer
	}
	for _, node := range affinityNodes {
		answer.Scores = append(answer.Scores, parsed.Score(node.object()))
	}
	return answer
}

func (n affinityNode) object() *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}
}
