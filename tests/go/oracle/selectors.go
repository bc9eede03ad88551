package main

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

type selectorCase struct {
	Text         string            `json:"text"`
	Error        *string           `json:"error,omitempty"`
	Canonical    string            `json:"canonical"`
	Requirements []requirementCase `json:"requirements,omitempty"`
	// One letter per label set: y where it matches.
	Matches string `json:"matches,omitempty"`
}

type requirementCase struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

var labelSets = []labels.Set{
	{},
	{"x": ""},
	{"x": "a"},
	{"x": "b", "y": "a"},
	{"x": "5"},
	{"x": "-5"},
	{"x": "+6"},
	{"x": "007"},
	{"x": "4"},
	{"x": "9223372036854775807"},
	{"x": "-9223372036854775808"},
	{"x": "9223372036854775808"},
	{"x": "5.0"},
	{"x": " 5"},
	{"x": "1_0"},
	{"y": ""},
	{"y": "b", "z": "c"},
	{"in": "notin", "notin": "in"},
	{"example.com/zone": "a", "x": "in"},
	{"x": "A"},
}

var selectorTexts = []string{
	"", " ", "\t\r\n", "x", "!x", " x ", "! x", "x,y", "x, y", "x ,y", "!x,!y", "y,x", "x,x", "!x,x",
	"x=", "x==", "x!=", "x>", "x<", "x=a", "x = a", "x==a", "x== a", "x!=a", "x !=a", "x>5", "x > 5", "x<5",
	"x>4", "x<6", "x>-5", "x<-5", "x>+5", "x>007", "x>5.0", "x>a", "x>a_", "x>a-", "x>9223372036854775807",
	"x<9223372036854775807", "x>9223372036854775808", "x<0", "x>0", "x>-9223372036854775808", "x>5,x<9",
	"x>in", "x<,y", "x>=5", "x<=5", "x<>5", "x=>5", "x=<5", "x=!a", "x!a", "x!", "!x=a", "!x in (a)", "!x!=a", "!!x",
	"! !x", "!,x", "!", "!=", "!=a", "=", "==", "=a", "==a", ">", "<5", "x===a", "x!==a", "x=!=a", "x==!a", "x=a=b",
	"x=a b", "x a", "x y z", "x=a,", "x,", ",", ",x", ",,", "x,,y", "x,(", "x,=", "x,)", "x)", "x(", "x()", "(x)", "(",
	")", "()", "x in (a)", "x in(a)", "x in ( a )", "x in (a,b)", "x in (b,a)", "x in (a,a)", "x in (a, ,b)",
	"x in (a,,b)", "x in ()", "x in ( )", "x in (,)", "x in (,,)", "x in (a,)", "x in (,a)", "x in (a,b,)",
	"x in (,a,)", "x notin (a)", "x notin(a,b)", "x notin ()", "x notin (,a)", "x notin (b,a,b)", "x in", "x in a",
	"x in (", "x in (a", "x in (a,", "x in (a,b", "x in (,", "x in (a b)", "x in (a=b)", "x in (!a)", "x in (a!)",
	"x in ((a))", "x in (a))", "x in (a)y", "x in (a) y", "x in (a),y", "x in (a), y notin (b),z", "x in (a),",
	"x in (in)", "x in (notin,in)", "x in (in in)", "x notin in (a)", "x in notin (a)", "x in in", "x in)", "x in ,",
	"x notin", "x notin a", "x notin (", "x notin (a", "xin (a)", "x inn (a)", "x IN (a)", "x In (a)", "x Notin (a)",
	"in", "notin", "in,notin", "!in", "!notin", "in in (in)", "notin notin (notin)", "in=notin", "in in", "notin in (in)",
	"in=in", "in!=in", "in>5", "in notin (a)", "x in (-a)", "x in (a-)", "x in (-a,-b)", "x in (-b,a,-a)",
	"x in (a.b,A_c-d)", "x=-a", "x=a-", "x=a/b", "x!=a:b", "x=é", "x=日本", "x=\"a\"", "x='a'", "x=\\a", "x=a\\tb", "x=a\x01b",
	"x=\u00a0", "x=\u200b", "x=\U000e0001", "é", "é=a", "\"x\"", "-x", "x-", "x.y", "x_y", ".x", "_x", "X", "0",
	"example.com/zone=a", "example.com/zone in (a)", "!example.com/zone", "example.com/", "/zone", "/", "a/b/c",
	"Example.com/zone", "example..com/zone", "-example/zone", "example.com/-zone", "example_com/zone", "éa/zone",
	"a.b-c.d/e", "a-/e", "a.-b/e", strings.Repeat("n", 63), strings.Repeat("n", 64), "x=" + strings.Repeat("v", 63),
	"x=" + strings.Repeat("v", 64), "x=" + strings.Repeat("-", 64), strings.Repeat("-", 64),
	strings.Repeat("p", 253) + "/n", strings.Repeat("p", 254) + "/n", strings.Repeat("P", 254) + "/-",
	"x\x00", "x\x00,y", "x=\x00a", "\x00x", "x,\x00y", "x, \x00y", "x\x00y", "x in\x00(a)", "x in (\x00)", "x \x00",
	"x==\x00=a", "x=\va", "x\va", "x\fin (a)", "x=a,y=b,z", "z,y=a,x", "x=a,x=b", "x!=a,x!=b", "x,y,z=c,y=b", "x=a;y=b",
	"x=a&y=b", "x=*", "*", "x?", "x#y", "x=a #c", "x.in (a)", "x,in,(a)", "x=(a)", "x==(a)", "x!=(a)", "x>(5)",
}

var selectorWords = []string{"x", "y", "a", "5", "in", "notin", "!", "=", "==", "!=", ">", "<", "(", ")", ","}

func selectors() file {
	var cases []selectorCase
	for _, text := range append(selectorTexts, generatedSelectors()...) {
		cases = append(cases, answerSelector(text))
	}
	return file{
		version("k8s.io/apimachinery"),
		[]section{list("labelSets", labelSets), list("cases", cases)},
	}
}

// generatedSelectors are all pairs of words, and longer rows of them: most are wrong.
func generatedSelectors() []string {
	var texts []string
	for _, first := range selectorWords {
		for _, second := range selectorWords {
			texts = append(texts, first+" "+second)
		}
	}
	random := chance(1)
	for range 300 {
		words := append([]string{"x"}, some(random, selectorWords, 7)...)
		texts = append(texts, strings.Join(words, pick(random, []string{"", " "})))
	}
	return texts
}

func answerSelector(text string) selectorCase {
	selector, err := labels.Parse(text)
	if err != nil {
		return selectorCase{Text: text, Error: sentence(err)}
	}
	answer := selectorCase{Text: text, Canonical: selector.String()}
	requirements, _ := selector.Requirements()
	for _, requirement := range requirements {
		answer.Requirements = append(answer.Requirements, requirementCase{
			requirement.Key(), string(requirement.Operator()), requirement.Values().List(),
		})
	}
	for _, set := range labelSets {
		answer.Matches += letter(selector.Matches(set))
	}
	return answer
}

func letter(yes bool) string {
	if yes {
		return "y"
	}
	return "n"
}
