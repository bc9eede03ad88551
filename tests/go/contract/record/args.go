package main

import "strings"

const (
	somePod  = `{"metadata":{"name":"p","namespace":"ns","uid":"u1","labels":{"high-comm":"true"}},"spec":{"schedulerName":"s"}}`
	someNode = `{"metadata":{"name":"n1","labels":{"a":"1"}},"spec":{},"status":{}}`
)

func both(pod, node string) string {
	return `{"Pod":` + pod + `,"Nodes":{"metadata":{},"items":[` + node + `]},"NodeNames":null}`
}

func withPod(pod string) string { return both(pod, someNode) }

func withMeta(fields string) string { return withPod(`{"metadata":{` + fields + `},"spec":{}}`) }

func withSpec(fields string) string {
	return withPod(`{"metadata":{"name":"p"},"spec":{` + fields + `}}`)
}

func withRequired(required string) string {
	return withSpec(`"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":` + required + `}}`)
}

func withPreferred(preferred string) string {
	return withSpec(`"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":` + preferred + `}}`)
}

func withNode(node string) string { return both(somePod, node) }

func withNodeMeta(fields string) string {
	return withNode(`{"metadata":{` + fields + `},"spec":{},"status":{}}`)
}

func withNodeSpec(fields string) string {
	return withNode(`{"metadata":{"name":"n1"},"spec":{` + fields + `}}`)
}

func withTaints(taints string) string { return withNodeSpec(`"taints":` + taints) }

func withAllocatable(allocatable string) string {
	return withNode(`{"metadata":{"name":"n1"},"status":{"allocatable":` + allocatable + `}}`)
}

func withNames(names string) string {
	return `{"Pod":` + somePod + `,"Nodes":null,"NodeNames":` + names + `}`
}

func nested(opening, closing string, depth int) string {
	return strings.Repeat(opening, depth) + strings.Repeat(closing, depth)
}

func argsSamples() []sample {
	var all []sample
	for _, part := range [][]sample{
		topLevel(), nodesAndNames(), podMeta(), podSpec(), affinity(), nodeFields(), taints(),
		allocatable(), keys(), text(), numbers(), duplicates(), podParts(), notRead(), refused(),
	} {
		all = append(all, part...)
	}
	return all
}

func topLevel() []sample {
	return []sample{
		{name: "top: a whole request", body: both(somePod, someNode)},
		{name: "top: nothing", body: ``},
		{name: "top: blanks", body: " \n\t\r"},
		{name: "top: null", body: `null`},
		{name: "top: null in blanks", body: " null\n"},
		{name: "top: nul", body: `nul`},
		{name: "top: NULL", body: `NULL`},
		{name: "top: true", body: `true`},
		{name: "top: a number", body: `3`},
		{name: "top: a string", body: `"x"`},
		{name: "top: an array", body: `[]`},
		{name: "top: an array with a request", body: `[` + both(somePod, someNode) + `]`},
		{name: "top: an empty object", body: `{}`},
		{name: "top: an empty object in blanks", body: "\n{\t}\r\n"},
		{name: "top: cut after a key", body: `{"Pod"`},
		{name: "top: cut after a colon", body: `{"Pod":`},
		{name: "top: cut in the pod", body: `{"Pod":{"metadata":{"name":"p`},
		{name: "top: a comma too many", body: `{"Pod":null,}`},
		{name: "top: a comma first", body: `{,"Pod":null}`},
		{name: "top: no comma", body: `{"Pod":null "Nodes":null}`},
		{name: "top: no colon", body: `{"Pod" null}`},
		{name: "top: a bare key", body: `{Pod:null}`},
		{name: "top: single quotes", body: `{'Pod':null}`},
		{name: "top: a comment", body: `{/* */"Pod":null}`},
		{name: "top: byte order mark", body: "\ufeff{}"},
		{name: "top: a form feed", body: "\f{}"},
		{name: "top: a vertical tab", body: "{\v}"},
		{name: "top: a no-break space", body: "{\u00a0}"},
		{name: "top: the wrong bracket", body: `{"NodeNames":["a"}}`},
		{name: "top: an empty key", body: `{"":1,"NodeNames":["a"]}`},
		{name: "top: unknown keys", body: `{"Other":[1,{"x":null}],"NodeNames":["a"],"Error":3}`},
		{name: "top: a pod alone", body: `{"Pod":` + somePod + `}`},
		{name: "top: blanks everywhere", body: "{ \"Pod\" : { \"metadata\" : { \"name\"\n:\t\"p\" } } ,\r\n\"NodeNames\" : [ \"a\" , \"b\" ] }"},
		{name: "top: every key null", body: `{"Pod":null,"Nodes":null,"NodeNames":null}`},
		{name: "top: Pod an array", body: `{"Pod":[]}`},
		{name: "top: Pod a number", body: `{"Pod":1}`},
		{name: "top: Pod false", body: `{"Pod":false}`},
		{name: "top: Pod empty", body: `{"Pod":{}}`},
	}
}

func nodesAndNames() []sample {
	return []sample{
		{name: "nodes: null items", body: `{"Pod":null,"Nodes":{"items":null}}`},
		{name: "nodes: no items", body: `{"Pod":null,"Nodes":{}}`},
		{name: "nodes: empty items", body: `{"Pod":null,"Nodes":{"items":[]}}`},
		{name: "nodes: items an object", body: `{"Pod":null,"Nodes":{"items":{}}}`},
		{name: "nodes: items a string", body: `{"Pod":null,"Nodes":{"items":"x"}}`},
		{name: "nodes: an array", body: `{"Pod":null,"Nodes":[]}`},
		{name: "nodes: a string", body: `{"Pod":null,"Nodes":"x"}`},
		{name: "nodes: a null item", body: `{"Pod":null,"Nodes":{"items":[null]}}`},
		{name: "nodes: a null item between others", body: `{"Pod":null,"Nodes":{"items":[` + someNode + `,null,` + someNode + `]}}`},
		{name: "nodes: an item that is a number", body: `{"Pod":null,"Nodes":{"items":[1]}}`},
		{name: "nodes: an item that is an array", body: `{"Pod":null,"Nodes":{"items":[[]]}}`},
		{name: "nodes: an empty item", body: `{"Pod":null,"Nodes":{"items":[{}]}}`},
		{name: "nodes: items before metadata and after", body: `{"Nodes":{"kind":"NodeList","items":[` + someNode + `],"apiVersion":"v1","metadata":{"resourceVersion":"7"}},"Pod":null}`},
		{name: "nodes: a comma too many", body: `{"Nodes":{"items":[` + someNode + `,]}}`},
		{name: "nodes: one name twice", body: `{"Nodes":{"items":[` + someNode + `,` + someNode + `]}}`},
		{name: "nodes: and names", body: `{"Pod":null,"Nodes":{"items":[` + someNode + `]},"NodeNames":["n1"]}`},
		{name: "nodes: names before nodes", body: `{"NodeNames":["n1"],"Nodes":{"items":[` + someNode + `]},"Pod":null}`},
		{name: "nodes: empty, and names", body: `{"Pod":null,"Nodes":{},"NodeNames":["n1"]}`},
		{name: "names: some", body: withNames(`["a","b","c"]`)},
		{name: "names: none", body: withNames(`[]`)},
		{name: "names: none in blanks", body: withNames("[ \n]")},
		{name: "names: null", body: withNames(`null`)},
		{name: "names: a null name", body: withNames(`["a",null,"b"]`)},
		{name: "names: an empty name", body: withNames(`[""]`)},
		{name: "names: one twice", body: withNames(`["a","a"]`)},
		{name: "names: a number", body: withNames(`[1]`)},
		{name: "names: an object", body: withNames(`{}`)},
		{name: "names: a string", body: withNames(`"a"`)},
		{name: "names: nested", body: withNames(`[["a"]]`)},
		{name: "names: escapes", body: withNames(`["\u0061\u00e9\u4e2d\/","\ud83d\ude00","<>&","\u003c\u003E\u0026"]`)},
		{name: "names: raw unicode", body: withNames("[\"é中😀\",\"\u2028\u2029\",\"\x7f\"]")},
		{name: "names: no comma", body: withNames(`["a" "b"]`)},
		{name: "names: a comma first", body: withNames(`[,"a"]`)},
	}
}

func podMeta() []sample {
	return []sample{
		{name: "pod: metadata null", body: withPod(`{"metadata":null}`)},
		{name: "pod: metadata a string", body: withPod(`{"metadata":"x"}`)},
		{name: "pod: metadata an array", body: withPod(`{"metadata":[]}`)},
		{name: "pod: everything null", body: withMeta(`"name":null,"namespace":null,"uid":null,"labels":null,"annotations":null`)},
		{name: "pod: name a number", body: withMeta(`"name":1`)},
		{name: "pod: name an object", body: withMeta(`"name":{}`)},
		{name: "pod: namespace true", body: withMeta(`"namespace":true`)},
		{name: "pod: uid a number", body: withMeta(`"uid":12`)},
		{name: "pod: labels an array", body: withMeta(`"labels":[]`)},
		{name: "pod: labels a string", body: withMeta(`"labels":"a=b"`)},
		{name: "pod: empty labels", body: withMeta(`"labels":{}`)},
		{name: "pod: a label with null", body: withMeta(`"labels":{"a":null,"b":"x"}`)},
		{name: "pod: a label with a number", body: withMeta(`"labels":{"a":1}`)},
		{name: "pod: a label with an object", body: withMeta(`"labels":{"a":{}}`)},
		{name: "pod: a label with true", body: withMeta(`"labels":{"a":true}`)},
		{name: "pod: an empty label key", body: withMeta(`"labels":{"":"x"}`)},
		{name: "pod: label keys keep their case", body: withMeta(`"labels":{"High-Comm":"a","high-comm":"b","HIGH-COMM":"c"}`)},
		{name: "pod: a label twice", body: withMeta(`"labels":{"a":"1","a":"2"}`)},
		{name: "pod: a label twice, by an escape", body: withMeta(`"labels":{"a":"1","\u0061":"2"}`)},
		{name: "pod: a label, then null", body: withMeta(`"labels":{"a":"1","a":null}`)},
		{name: "pod: labels unsorted", body: withMeta(`"labels":{"z":"1","a":"2","m":"3","A":"4"}`)},
		{name: "pod: annotations", body: withMeta(`"annotations":{"a":"{\"x\":[1,2]}","b":""}`)},
		{name: "pod: an annotation with null", body: withMeta(`"annotations":{"a":null}`)},
		{name: "pod: an annotation with a number", body: withMeta(`"annotations":{"a":1}`)},
		{name: "pod: annotations an array", body: withMeta(`"annotations":["a"]`)},
		{name: "pod: annotations twice unite", body: withMeta(`"annotations":{"a":"1","b":"1"},"annotations":{"b":"2","c":"2"}`)},
	}
}

func podSpec() []sample {
	return []sample{
		{name: "spec: null", body: withPod(`{"spec":null}`)},
		{name: "spec: an array", body: withPod(`{"spec":[]}`)},
		{name: "spec: empty", body: withSpec(``)},
		{name: "spec: scheduler name", body: withSpec(`"schedulerName":"mine"`)},
		{name: "spec: scheduler name empty", body: withSpec(`"schedulerName":""`)},
		{name: "spec: scheduler name null", body: withSpec(`"schedulerName":null`)},
		{name: "spec: scheduler name a number", body: withSpec(`"schedulerName":1`)},
		{name: "spec: node name", body: withSpec(`"nodeName":"n7"`)},
		{name: "spec: node name an array", body: withSpec(`"nodeName":["n7"]`)},
		{name: "spec: node selector", body: withSpec(`"nodeSelector":{"a":"1","b":""}`)},
		{name: "spec: node selector null", body: withSpec(`"nodeSelector":null`)},
		{name: "spec: node selector with null", body: withSpec(`"nodeSelector":{"a":null}`)},
		{name: "spec: node selector with a number", body: withSpec(`"nodeSelector":{"a":1}`)},
		{name: "spec: node selector an array", body: withSpec(`"nodeSelector":[{}]`)},
		{name: "spec: node selector twice unites", body: withSpec(`"nodeSelector":{"a":"1"},"nodeSelector":{"b":"2"}`)},
		{name: "spec: node selector, then null", body: withSpec(`"nodeSelector":{"a":"1"},"nodeSelector":null`)},
		{name: "spec: tolerations null", body: withSpec(`"tolerations":null`)},
		{name: "spec: tolerations empty", body: withSpec(`"tolerations":[]`)},
		{name: "spec: tolerations an object", body: withSpec(`"tolerations":{}`)},
		{name: "spec: a toleration null", body: withSpec(`"tolerations":[null]`)},
		{name: "spec: a toleration empty", body: withSpec(`"tolerations":[{}]`)},
		{name: "spec: a toleration a string", body: withSpec(`"tolerations":["x"]`)},
		{name: "spec: tolerations", body: withSpec(`"tolerations":[{"operator":"Exists"},{"key":"k","operator":"Equal","value":"v","effect":"NoSchedule","tolerationSeconds":3}]`)},
		{name: "spec: an unknown operator", body: withSpec(`"tolerations":[{"key":"k","operator":"exists"}]`)},
		{name: "spec: a toleration's key null", body: withSpec(`"tolerations":[{"key":null,"value":null,"operator":null,"effect":null}]`)},
		{name: "spec: a toleration's key a number", body: withSpec(`"tolerations":[{"key":1}]`)},
		{name: "spec: a toleration's value a number", body: withSpec(`"tolerations":[{"key":"k","value":1}]`)},
		{name: "spec: a toleration's effect an array", body: withSpec(`"tolerations":[{"effect":[]}]`)},
		{name: "spec: a toleration's operator true", body: withSpec(`"tolerations":[{"operator":true}]`)},
		{name: "spec: a toleration's key twice", body: withSpec(`"tolerations":[{"key":"a","Key":"b"}]`)},
	}
}

func affinity() []sample {
	return []sample{
		{name: "affinity: null", body: withSpec(`"affinity":null`)},
		{name: "affinity: empty", body: withSpec(`"affinity":{}`)},
		{name: "affinity: a string", body: withSpec(`"affinity":"x"`)},
		{name: "affinity: nodeAffinity null", body: withSpec(`"affinity":{"nodeAffinity":null}`)},
		{name: "affinity: nodeAffinity empty", body: withSpec(`"affinity":{"nodeAffinity":{}}`)},
		{name: "affinity: nodeAffinity an array", body: withSpec(`"affinity":{"nodeAffinity":[]}`)},
		{name: "affinity: required null", body: withRequired(`null`)},
		{name: "affinity: required empty", body: withRequired(`{}`)},
		{name: "affinity: required an array", body: withRequired(`[]`)},
		{name: "affinity: terms null", body: withRequired(`{"nodeSelectorTerms":null}`)},
		{name: "affinity: terms empty", body: withRequired(`{"nodeSelectorTerms":[]}`)},
		{name: "affinity: a term null", body: withRequired(`{"nodeSelectorTerms":[null]}`)},
		{name: "affinity: a term empty", body: withRequired(`{"nodeSelectorTerms":[{}]}`)},
		{name: "affinity: a term a string", body: withRequired(`{"nodeSelectorTerms":["x"]}`)},
		{name: "affinity: expressions and fields", body: withRequired(`{"nodeSelectorTerms":[{"matchExpressions":[{"key":"z","operator":"In","values":["a","b"]},{"key":"y","operator":"Exists"}],"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]},{"matchExpressions":[{"key":"c","operator":"Gt","values":["5"]}]}]}`)},
		{name: "affinity: fields before expressions", body: withRequired(`{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["n1"]}],"matchExpressions":[{"key":"z","operator":"DoesNotExist"}]}]}`)},
		{name: "affinity: expressions null", body: withRequired(`{"nodeSelectorTerms":[{"matchExpressions":null,"matchFields":null}]}`)},
		{name: "affinity: an expression null", body: withRequired(`{"nodeSelectorTerms":[{"matchExpressions":[null]}]}`)},
		{name: "affinity: expressions an object", body: withRequired(`{"nodeSelectorTerms":[{"matchExpressions":{}}]}`)},
		{name: "affinity: values null", body: withRequired(`{"nodeSelectorTerms":[{"matchExpressions":[{"key":"z","operator":"In","values":null}]}]}`)},
		{name: "affinity: a value null", body: withRequired(`{"nodeSelectorTerms":[{"matchExpressions":[{"key":"z","operator":"In","values":["a",null]}]}]}`)},
		{name: "affinity: a value a number", body: withRequired(`{"nodeSelectorTerms":[{"matchExpressions":[{"key":"z","operator":"Gt","values":[5]}]}]}`)},
		{name: "affinity: values a string", body: withRequired(`{"nodeSelectorTerms":[{"matchExpressions":[{"key":"z","operator":"In","values":"a"}]}]}`)},
		{name: "affinity: an operator that does not exist", body: withRequired(`{"nodeSelectorTerms":[{"matchExpressions":[{"key":"z","operator":"in"}]}]}`)},
		{name: "affinity: an operator that is a number", body: withRequired(`{"nodeSelectorTerms":[{"matchExpressions":[{"key":"z","operator":1}]}]}`)},
		{name: "affinity: any case", body: withSpec(`"Affinity":{"NODEAFFINITY":{"RequiredDuringSchedulingIgnoredDuringExecution":{"nodeselectorterms":[{"MatchExpressions":[{"Key":"z","Operator":"In","Values":["a"]}]}]}}}`)},
		{name: "affinity: long s and kelvin sign", body: withRequired("{\"node\u017felectorTerms\":[{\"matchExpre\u017f\u017fion\u017f\":[{\"\u212aey\":\"z\",\"operator\":\"In\",\"value\u017f\":[\"a\"]}]}]}")},
		{name: "affinity: preferred null", body: withPreferred(`null`)},
		{name: "affinity: preferred an object", body: withPreferred(`{}`)},
		{name: "affinity: preferred", body: withPreferred(`[{"weight":5,"preference":{"matchExpressions":[{"key":"z","operator":"Exists"}]}}]`)},
		{name: "affinity: preferred weight a string", body: withPreferred(`[{"weight":"5","preference":{}}]`)},
		{name: "affinity: preferred weight a fraction", body: withPreferred(`[{"weight":5.0,"preference":{}}]`)},
		{name: "affinity: preferred weight over int32", body: withPreferred(`[{"weight":2147483648,"preference":{}}]`)},
		{name: "affinity: preferred weight null", body: withPreferred(`[{"weight":null,"preference":null}]`)},
		{name: "affinity: a preference a string", body: withPreferred(`[{"weight":1,"preference":"x"}]`)},
	}
}

func nodeFields() []sample {
	return []sample{
		{name: "node: metadata null", body: withNode(`{"metadata":null,"spec":null,"status":null}`)},
		{name: "node: metadata a number", body: withNode(`{"metadata":1}`)},
		{name: "node: spec an array", body: withNode(`{"metadata":{"name":"n"},"spec":[]}`)},
		{name: "node: status a string", body: withNode(`{"metadata":{"name":"n"},"status":"x"}`)},
		{name: "node: no name", body: withNodeMeta(`"labels":{"a":"b"}`)},
		{name: "node: resourceVersion a number", body: withNodeMeta(`"name":"n","resourceVersion":5`)},
		{name: "node: name null", body: withNodeMeta(`"name":null`)},
		{name: "node: name a number", body: withNodeMeta(`"name":5`)},
		{name: "node: name an array", body: withNodeMeta(`"name":["n"]`)},
		{name: "node: labels null", body: withNodeMeta(`"name":"n","labels":null`)},
		{name: "node: labels empty", body: withNodeMeta(`"name":"n","labels":{}`)},
		{name: "node: labels an array", body: withNodeMeta(`"name":"n","labels":["a"]`)},
		{name: "node: a label null", body: withNodeMeta(`"name":"n","labels":{"a":null}`)},
		{name: "node: a label a number", body: withNodeMeta(`"name":"n","labels":{"a":1.5}`)},
		{name: "node: a label false", body: withNodeMeta(`"name":"n","labels":{"a":false}`)},
		{name: "node: a label twice", body: withNodeMeta(`"name":"n","labels":{"a":"1","b":"2","a":"3"}`)},
		{name: "node: label keys keep their case", body: withNodeMeta(`"name":"n","labels":{"a":"1","A":"2"}`)},
		{name: "node: label keys with escapes", body: withNodeMeta(`"name":"n","labels":{"\u0061/\u0062":"1","c\/d":"2","\"\\":"3"}`)},
		{name: "node: label values with escapes", body: withNodeMeta(`"name":"n","labels":{"a":"\u0041\n\t\"","b":"\u0000","c":"\ud83d\ude00"}`)},
		{name: "node: name before and after labels", body: withNodeMeta(`"name":"n1","labels":{"a":"1"},"name":"n2"`)},
		{name: "node: metadata last", body: withNode(`{"status":{"allocatable":{"cpu":"1"}},"spec":{"unschedulable":true},"metadata":{"labels":{"a":"b"},"name":"n"}}`)},
		{name: "node: unschedulable", body: withNodeSpec(`"unschedulable":true`)},
		{name: "node: unschedulable false", body: withNodeSpec(`"unschedulable":false`)},
		{name: "node: unschedulable null", body: withNodeSpec(`"unschedulable":null`)},
		{name: "node: unschedulable a string", body: withNodeSpec(`"unschedulable":"true"`)},
		{name: "node: unschedulable a number", body: withNodeSpec(`"unschedulable":1`)},
		{name: "node: unschedulable twice", body: withNodeSpec(`"unschedulable":true,"Unschedulable":false`)},
		{name: "node: unschedulable, then null", body: withNodeSpec(`"unschedulable":true,"unschedulable":null`)},
		{name: "node: unschedulable True", body: withNodeSpec(`"unschedulable":True`)},
		{name: "node: any case", body: withNode(`{"METADATA":{"NAME":"n","LABELS":{"a":"b"}},"Spec":{"UnSchedulable":true,"Taints":[{"KEY":"k","Effect":"NoSchedule"}]},"Status":{"Allocatable":{"cpu":"2"}}}`)},
	}
}

func taints() []sample {
	return []sample{
		{name: "taints: null", body: withTaints(`null`)},
		{name: "taints: empty", body: withTaints(`[]`)},
		{name: "taints: an object", body: withTaints(`{}`)},
		{name: "taints: some", body: withTaints(`[{"key":"k","value":"v","effect":"NoSchedule"},{"key":"l","effect":"NoExecute","timeAdded":"2026-01-01T00:00:00Z"}]`)},
		{name: "taints: a null taint", body: withTaints(`[null]`)},
		{name: "taints: an empty taint", body: withTaints(`[{}]`)},
		{name: "taints: a number", body: withTaints(`[1]`)},
		{name: "taints: nulls in a taint", body: withTaints(`[{"key":null,"value":null,"effect":null}]`)},
		{name: "taints: a value that is a number", body: withTaints(`[{"key":"k","value":1}]`)},
		{name: "taints: an effect that is an array", body: withTaints(`[{"effect":[]}]`)},
		{name: "taints: a key that is true", body: withTaints(`[{"key":true}]`)},
		{name: "taints: a field twice", body: withTaints(`[{"key":"a","key":"b","KEY":"c"}]`)},
		{name: "taints: an unknown effect", body: withTaints(`[{"key":"a","effect":"PreferNoSchedule"},{"key":"b","effect":"Other"}]`)},
	}
}

func allocatable() []sample {
	samples := []sample{
		{name: "allocatable: null", body: withAllocatable(`null`)},
		{name: "allocatable: empty", body: withAllocatable(`{}`)},
		{name: "allocatable: an array", body: withAllocatable(`[]`)},
		{name: "allocatable: a string", body: withAllocatable(`"1"`)},
		{name: "allocatable: many", body: withAllocatable(`{"cpu":"31850m","memory":"126418568Ki","pods":"234","nvidia.com/gpu":"8","ephemeral-storage":"95551679124"}`)},
		{name: "allocatable: a resource twice", body: withAllocatable(`{"cpu":"1","cpu":"2"}`)},
		{name: "allocatable: a resource, then null", body: withAllocatable(`{"cpu":"1","cpu":null}`)},
		{name: "allocatable: resources keep their case", body: withAllocatable(`{"cpu":"1","CPU":"2"}`)},
		{name: "allocatable: an escaped resource", body: withAllocatable(`{"\u0063pu":"3"}`)},
		{name: "allocatable: twice unites", body: withNode(`{"metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"1","pods":"5"},"allocatable":{"cpu":"2"}}}`)},
		{name: "allocatable: then null", body: withNode(`{"metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"1"},"allocatable":null}}`)},
	}
	for _, quantity := range []string{
		`"1"`, `"0"`, `"-1"`, `"+1"`, `"1.5"`, `".5"`, `"5."`, `"."`, `""`, `" "`, `" 1 "`, `"1 "`, `"1 2"`,
		`"100m"`, `"1u"`, `"1n"`, `"1k"`, `"1K"`, `"1Ki"`, `"1M"`, `"1Mi"`, `"1.5Gi"`, `"1Ti"`, `"1P"`, `"1E"`, `"7Ei"`,
		`"1e3"`, `"1E3"`, `"1e-3"`, `"1e+3"`, `"12e6"`, `"1e"`, `"0x10"`, `"1_000"`, `"1,5"`, `"abc"`, `"1mm"`, `"1.2.3"`, `"--1"`,
		`"0.1m"`, `"0.0001"`, `"1.0000000001"`, `"1000000000000000000"`, `"9223372036854775807"`, `"NaN"`, `"Inf"`,
		`1`, `1.5`, `1e3`, `-2`, `-0`, `0.25`, `1E2`, `12345678901`, `null`, `true`, `[]`, `{}`, `["1"]`, `{"a":1}`,
		`"\u0031"`, `"1\u006d"`, `"1\n"`, `"\t1"`, `"1\/2"`, `"١"`, `"１"`,
	} {
		samples = append(samples,
			sample{name: "allocatable: memory " + quantity, body: withAllocatable(`{"memory":` + quantity + `}`)},
		)
	}
	return samples
}
