package main

import (
	"slices"
	"strings"
)

func objects(depth int) string {
	return strings.Repeat(`{"a":`, depth) + `0` + strings.Repeat(`}`, depth)
}

func sorted(samples []sample) []sample {
	slices.SortFunc(samples, func(a, b sample) int { return strings.Compare(a.name, b.name) })
	return samples
}

func keys() []sample {
	return []sample{
		{name: "keys: as kube-scheduler 1.16 wrote them", body: `{"pod":` + somePod + `,"nodes":{"metadata":{},"items":[` + someNode + `]},"nodenames":null}`},
		{name: "keys: lower-case names", body: `{"pod":` + somePod + `,"nodenames":["a"]}`},
		{name: "keys: camel-case names", body: `{"pod":` + somePod + `,"nodeNames":["a"]}`},
		{name: "keys: upper case", body: `{"POD":` + somePod + `,"NODENAMES":["a"]}`},
		{name: "keys: mixed case", body: `{"pOd":` + somePod + `,"nODES":{"ITEMS":[` + someNode + `]}}`},
		{name: "keys: long s in Nodes", body: "{\"Node\u017f\":{\"item\u017f\":[" + someNode + "]}}"},
		{name: "keys: long s in NodeNames", body: "{\"NodeName\u017f\":[\"a\"]}"},
		{name: "keys: long s by an escape", body: `{"NodeName\u017f":["a"]}`},
		{name: "keys: long s in the pod", body: "{\"Pod\":{\"metadata\":{\"name\":\"p\",\"label\u017f\":{\"a\":\"b\"},\"annotation\u017f\":{\"c\":\"d\"},\"name\u017fpace\":\"ns\"},\"\u017fpec\":{\"\u017fchedulerName\":\"s\"}}}"},
		{name: "keys: long s in the node", body: withNode("{\"metadata\":{\"name\":\"n\"},\"\u017fpec\":{\"taint\u017f\":[{\"key\":\"k\"}],\"un\u017fchedulable\":true},\"\u017ftatu\u017f\":{\"allocatable\":{\"cpu\":\"1\"}}}")},
		{name: "keys: kelvin sign in a taint", body: withTaints("[{\"\u212aey\":\"k\",\"effect\":\"NoSchedule\"}]")},
		{name: "keys: kelvin sign by an escape", body: withSpec(`"tolerations":[{"\u212Aey":"k"}]`)},
		{name: "keys: a dotless i is no i", body: "{\"Pod\":{\"metadata\":{\"u\u0131d\":\"u\"}}}"},
		{name: "keys: a full-width letter is none", body: "{\"Ｐod\":{}}"},
		{name: "keys: an accent is none", body: "{\"Pód\":{}}"},
		{name: "keys: a combining accent is none", body: "{\"Nodes\u0301\":{}}"},
		{name: "keys: a blank is part of the key", body: `{"Pod ":{"metadata":{"name":"x"}}}`},
		{name: "keys: escapes", body: `{"\u0050\u006f\u0064":{"m\u0065tadata":{"n\u0061me":"p"}},"Node\u004eames":["a"]}`},
		{name: "keys: an escaped NUL", body: `{"Pod\u0000":{"metadata":{}},"NodeNames":["a"]}`},
		{name: "keys: a lone surrogate", body: `{"Pod\ud800":{},"NodeNames":["a"]}`},
		{name: "keys: a prefix is another key", body: `{"Po":1,"Node":2,"NodeName":3,"NodeNamess":4,"NodeNames":["a"]}`},
		{name: "keys: a raw newline", body: "{\"Po\nd\":{}}"},
		{name: "keys: the same key in two cases", body: `{"NodeNames":["a"],"nodeNames":["b"]}`},
		{name: "keys: field names elsewhere mean nothing", body: `{"Pod":{"Pod":{"metadata":{"name":"x"}},"items":[1],"NodeNames":["b"],"metadata":{"name":"p","spec":{"nodeName":"y"}}},"items":[3],"NodeNames":["a"]}`},
	}
}

func text() []sample {
	samples := []sample{}
	for _, value := range []string{
		`"\"\\\/\b\f\n\r\t"`, `"\u00e9\u00E9"`, `"\u4e2d\u6587"`, `"\ud83d\ude00"`, `"\uD83D\uDE00"`, `"\u0000"`, `"\u007f"`, `"\u2028"`, `"\uffff"`, `"\ufffd"`,
		`"\ud83d"`, `"\ude00"`, `"\ude00\ud83d"`, `"\ud83dx"`, `"\ud83d\n"`, `"\ud83d\u0041"`, `"\ud83d\ud83d\ude00"`, `"\ud83d\\ude00"`,
		`"\x41"`, `"\a"`, `"\'"`, `"\u"`, `"\u12"`, `"\u12g4"`, `"\U0041"`, `"\u 041"`, `"\`, `"\u004`, `"a`, `'a'`, `a`, `"a" "b"`,
		"\"\t\"", "\"\n\"", "\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"\u0080\"", "\"é中😀\"", "\"\u2028\"", "\"\ufeff\"", "\"\U0010ffff\"", `"<>&'"`, `"\u003c\u003e\u0026"`,
	} {
		samples = append(samples, sample{name: "text: name " + value, body: withMeta(`"name":` + value)})
	}
	for _, value := range []string{`"\ud83d\ude00"`, `"\ud83d"`, `"\u00zz"`, "\"\x01\"", `"\n\/\\"`} {
		samples = append(samples,
			sample{name: "text: node name " + value, body: withNodeMeta(`"name":` + value)},
			sample{name: "text: label " + value, body: withNodeMeta(`"name":"n","labels":{` + value + `:` + value + `}`)},
			sample{name: "text: not read " + value, body: withNodeMeta(`"name":"n","generateName":` + value)},
		)
	}
	return samples
}

func numbers() []sample {
	samples := []sample{}
	for _, value := range []string{
		`0`, `5`, `-5`, `-0`, `2147483647`, `2147483648`, `-2147483648`, `-2147483649`, `9223372036854775807`, `9223372036854775808`, `99999999999999999999999`,
		`3.0`, `3.5`, `1e1`, `1E1`, `1e0`, `"3"`, `""`, `null`, `true`, `[]`, `{}`, `[3]`,
		`01`, `00`, `-`, `+1`, `.5`, `1.`, `1e`, `1e+`, `0x1`, `1_0`, `NaN`, `Infinity`, `-Infinity`, `1 2`, `--1`, `1-1`, `١`,
	} {
		samples = append(samples, sample{name: "number: priority " + value, body: withSpec(`"priority":` + value)})
	}
	for _, value := range []string{`1e400`, `-1e-400`, `0.1e+5`, `123456789012345678901234567890`, `-0.0`, `01`, `1.e1`, `.1`, `-`, `1e`, `+0`, `0e`, `0x0`} {
		samples = append(samples, sample{name: "number: in an unknown field " + value, body: `{"NodeNames":["a"],"Other":[` + value + `]}`})
	}
	return samples
}

func duplicates() []sample {
	const secondPod = `{"metadata":{"labels":{"b":"2"}},"spec":{"nodeName":"n9"}}`
	const twoTaints = `"taints":[{"key":"a","value":"1","effect":"NoSchedule"},{"key":"b","value":"2","effect":"NoExecute"}]`
	const twoTolerations = `"tolerations":[{"key":"a","operator":"Equal","value":"1"},{"key":"b","operator":"Exists","effect":"NoExecute"}]`
	const term = `{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["1","2"]}]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}`
	return []sample{
		{name: "twice: Pod merges", body: `{"Pod":` + somePod + `,"Pod":` + secondPod + `,"NodeNames":["a"]}`},
		{name: "twice: Pod in another case merges", body: `{"Pod":` + somePod + `,"pod":` + secondPod + `,"NodeNames":["a"]}`},
		{name: "twice: Pod, then null", body: `{"Pod":` + somePod + `,"Pod":null,"NodeNames":["a"]}`},
		{name: "twice: Pod, null, Pod", body: `{"Pod":` + somePod + `,"Pod":null,"Pod":` + secondPod + `,"NodeNames":["a"]}`},
		{name: "twice: Pod null first", body: `{"Pod":null,"Pod":` + somePod + `,"NodeNames":["a"]}`},
		{name: "twice: Pod, then empty", body: `{"Pod":` + somePod + `,"Pod":{},"NodeNames":["a"]}`},
		{name: "twice: Pod, then a string", body: `{"Pod":` + somePod + `,"Pod":"x","NodeNames":["a"]}`},
		{name: "twice: metadata merges", body: withPod(`{"metadata":{"name":"p","labels":{"a":"1","b":"1"}},"metadata":{"labels":{"b":"2"},"uid":"u"}}`)},
		{name: "twice: metadata, then null", body: withPod(`{"metadata":{"name":"p","labels":{"a":"1"}},"metadata":null}`)},
		{name: "twice: metadata in another case", body: withPod(`{"metadata":{"name":"p"},"Metadata":{"namespace":"ns"},"METADATA":{"uid":"u"}}`)},
		{name: "twice: labels unite", body: withMeta(`"labels":{"a":"1","b":"1"},"labels":{"b":"2","c":"2"}`)},
		{name: "twice: labels, then null", body: withMeta(`"labels":{"a":"1"},"labels":null`)},
		{name: "twice: labels, null, labels", body: withMeta(`"labels":{"a":"1"},"labels":null,"labels":{"b":"2"}`)},
		{name: "twice: labels, then empty", body: withMeta(`"labels":{"a":"1"},"labels":{}`)},
		{name: "twice: name, then null", body: withMeta(`"name":"p","name":null`)},
		{name: "twice: name, then a number", body: withMeta(`"name":"p","name":1`)},
		{name: "twice: name, a number first", body: withMeta(`"name":1,"name":"p"`)},
		{name: "twice: spec merges", body: withPod(`{"spec":{"nodeName":"a","priority":3},"spec":{"schedulerName":"s"}}`)},
		{name: "twice: spec, then null", body: withPod(`{"spec":{"nodeName":"a","priority":3},"spec":null}`)},
		{name: "twice: priority, then null", body: withSpec(`"priority":3,"priority":null`)},
		{name: "twice: priority", body: withSpec(`"priority":3,"priority":4`)},
		{name: "twice: scheduler name, then empty", body: withSpec(`"schedulerName":"s","schedulerName":""`)},
		{name: "twice: tolerations decode over the old ones", body: withSpec(twoTolerations + `,"tolerations":[{"key":"c"}]`)},
		{name: "twice: tolerations, the first null", body: withSpec(twoTolerations + `,"tolerations":[null,{"key":"c"}]`)},
		{name: "twice: tolerations, the second longer", body: withSpec(`"tolerations":[{"key":"a","value":"1"}],"tolerations":[{"effect":"NoSchedule"},{"key":"b"},{"key":"c"}]`)},
		{name: "twice: tolerations, then empty", body: withSpec(twoTolerations + `,"tolerations":[]`)},
		{name: "twice: tolerations, then null", body: withSpec(twoTolerations + `,"tolerations":null`)},
		{name: "thrice: tolerations find what the second left over", body: withSpec(twoTolerations + `,"tolerations":[{"key":"c"}],"tolerations":[{"value":"d"},{"value":"e"}]`)},
		{name: "thrice: tolerations after empty begin anew", body: withSpec(twoTolerations + `,"tolerations":[],"tolerations":[{"value":"d"},{"value":"e"}]`)},
		{name: "thrice: tolerations after null begin anew", body: withSpec(twoTolerations + `,"tolerations":null,"tolerations":[{"value":"d"},{"value":"e"}]`)},
		{name: "twice: affinity merges", body: withSpec(`"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":` + term + `}},"affinity":{"podAffinity":{}}`)},
		{name: "twice: affinity, then null", body: withSpec(`"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":` + term + `}},"affinity":null`)},
		{name: "twice: affinity, nodeAffinity then null", body: withSpec(`"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":` + term + `},"nodeAffinity":null}`)},
		{name: "twice: required, then null", body: withSpec(`"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":` + term + `,"requiredDuringSchedulingIgnoredDuringExecution":null}}`)},
		{name: "twice: required, then empty", body: withSpec(`"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":` + term + `,"requiredDuringSchedulingIgnoredDuringExecution":{}}}`)},
		{name: "twice: terms decode over the old ones", body: withRequired(`{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["1","2"]}]},{"matchFields":[{"key":"f"}]}],"nodeSelectorTerms":[{"matchFields":[{"key":"g"}]}]}`)},
		{name: "twice: expressions decode over the old ones", body: withRequired(`{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["1","2"]}],"matchExpressions":[{"key":"b"}]}]}`)},
		{name: "twice: values", body: withRequired(`{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["1","2"],"values":["3"]}]}]}`)},
		{name: "twice: values with null keep the old one", body: withRequired(`{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["1","2"],"values":[null,"4"]}]}]}`)},
		{name: "thrice: values find what the second left over", body: withRequired(`{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["1","2"],"values":["3"],"values":[null,null]}]}]}`)},
		{name: "thrice: terms find what the second left over", body: withRequired(`{"nodeSelectorTerms":[{"matchFields":[{"key":"f"}]},{"matchFields":[{"key":"g","values":["x"]}]}],"nodeSelectorTerms":[{}],"nodeSelectorTerms":[{},{"matchFields":[{"operator":"In"}]}]}`)},
		{name: "twice: NodeNames", body: `{"NodeNames":["a","b"],"NodeNames":["c"]}`},
		{name: "twice: NodeNames, then null", body: `{"NodeNames":["a","b"],"NodeNames":null}`},
		{name: "twice: NodeNames, then empty", body: `{"NodeNames":["a","b"],"NodeNames":[]}`},
		{name: "twice: NodeNames with null keep the old one", body: `{"NodeNames":["a","b"],"NodeNames":[null,"c"]}`},
		{name: "thrice: NodeNames find what the second left over", body: `{"NodeNames":["a","b","c"],"nodenames":["d"],"NodeNames":[null,null,"e",null]}`},
		{name: "thrice: NodeNames after null begin anew", body: `{"NodeNames":["a","b"],"NodeNames":null,"NodeNames":[null,null]}`},
		{name: "twice: Nodes null, then some", body: `{"Nodes":null,"Nodes":{"items":[` + someNode + `]}}`},
		{name: "twice: Nodes, then null", body: `{"Nodes":{"items":[` + someNode + `]},"Nodes":null}`},
		{name: "twice: items null, then some", body: `{"Nodes":{"items":null,"items":[` + someNode + `]}}`},
		{name: "twice: items, then null", body: `{"Nodes":{"items":[` + someNode + `],"items":null}}`},
		{name: "twice: Nodes without items, then some", body: `{"Nodes":{"metadata":{}},"Nodes":{"items":[` + someNode + `]}}`},
		{name: "twice: Nodes", body: `{"Nodes":{"items":[` + someNode + `]},"Nodes":{"items":[{"metadata":{"name":"n2"}}]}}`, deliberate: twice},
		{name: "twice: Nodes in another case", body: `{"Nodes":{"items":[` + someNode + `]},"nodes":{"items":[{"metadata":{"name":"n2"}}]}}`, deliberate: twice},
		{name: "twice: items", body: `{"Nodes":{"items":[` + someNode + `],"items":[{"metadata":{"name":"n2"}}]}}`, deliberate: twice},
		{name: "twice: items in another case", body: `{"Nodes":{"items":[` + someNode + `],"Items":[]}}`},
		{name: "twice: a node's metadata merges", body: withNode(`{"metadata":{"name":"n1","labels":{"a":"1","b":"1"}},"metadata":{"labels":{"b":"2"}}}`)},
		{name: "twice: a node's metadata, then null", body: withNode(`{"metadata":{"name":"n1","labels":{"a":"1"}},"metadata":null}`)},
		{name: "twice: a node's labels unite", body: withNodeMeta(`"name":"n","labels":{"a":"1","b":"1"},"labels":{"b":"2","c":"2"}`)},
		{name: "twice: a node's labels, then null", body: withNodeMeta(`"name":"n","labels":{"a":"1"},"labels":null`)},
		{name: "twice: a node's labels, null, labels", body: withNodeMeta(`"name":"n","labels":{"a":"1"},"labels":null,"labels":{"b":"1"}`)},
		{name: "twice: a node's name, then null", body: withNodeMeta(`"name":"n","name":null`)},
		{name: "twice: a node's spec merges", body: withNode(`{"metadata":{"name":"n1"},"spec":{"unschedulable":true},"spec":{"taints":[{"key":"k"}]}}`)},
		{name: "twice: a node's spec, then null", body: withNode(`{"metadata":{"name":"n1"},"spec":{"unschedulable":true,"taints":[{"key":"k"}]},"spec":null}`)},
		{name: "twice: a node's status merges", body: withNode(`{"metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"1"}},"status":{"allocatable":{"pods":"2"}}}`)},
		{name: "twice: taints decode over the old ones", body: withNodeSpec(twoTaints + `,"taints":[{"key":"c"}]`)},
		{name: "twice: taints, the second longer", body: withNodeSpec(`"taints":[{"key":"a","value":"1"}],"taints":[{"effect":"NoSchedule"},{"key":"b"},{"key":"c"}]`)},
		{name: "twice: taints, then empty", body: withNodeSpec(twoTaints + `,"taints":[]`)},
		{name: "twice: taints, then null", body: withNodeSpec(twoTaints + `,"taints":null`)},
		{name: "twice: a taint null keeps the old one", body: withNodeSpec(twoTaints + `,"taints":[null]`)},
		{name: "thrice: taints find what the second left over", body: withNodeSpec(twoTaints + `,"taints":[{"key":"c"}],"taints":[{"value":"d"},{"value":"e"}]`)},
		{name: "thrice: taints after empty begin anew", body: withNodeSpec(twoTaints + `,"taints":[],"taints":[{"value":"d"},{"value":"e"}]`)},
		{name: "thrice: taints after null begin anew", body: withNodeSpec(twoTaints + `,"taints":null,"taints":[{"value":"d"},{"value":"e"}]`)},
		{name: "four times: taints", body: withNodeSpec(twoTaints + `,"taints":[{"key":"c"}],"taints":[{"value":"d"},{"value":"e"},{"value":"f"}],"taints":[{},{},{},{"effect":"g"}]`)},
		{name: "twice: an error in the first counts", body: withNode(`{"metadata":{"name":"n1"},"spec":{"taints":[1]},"spec":null}`)},
	}
}

func notRead() []sample {
	samples := []sample{}
	for name, body := range map[string]string{
		"volumes a string":             withSpec(`"volumes":"x"`),
		"a volume a number":            withSpec(`"volumes":[1]`),
		"dnsPolicy a number":           withSpec(`"dnsPolicy":1`),
		"a pod's hostIP an array":      withPod(`{"metadata":{"name":"p"},"status":{"hostIP":[]}}`),
		"managedFields a number":       withNodeMeta(`"name":"n","managedFields":1`),
		"creationTimestamp no time":    withNodeMeta(`"name":"n","creationTimestamp":"yesterday"`),
		"generation over int64":        withNodeMeta(`"name":"n","generation":99999999999999999999`),
		"podCIDRs an object":           withNodeSpec(`"podCIDRs":{}`),
		"nodeInfo a string":            withNode(`{"metadata":{"name":"n1"},"status":{"nodeInfo":"x"}}`),
		"daemonEndpoints an array":     withNode(`{"metadata":{"name":"n1"},"status":{"daemonEndpoints":[]}}`),
		"a list's metadata an array":   `{"Nodes":{"metadata":[],"items":[` + someNode + `]}}`,
		"a list's kind a number":       `{"Nodes":{"kind":1,"items":[` + someNode + `]}}`,
		"a node's apiVersion an array": withNode(`{"apiVersion":[],"metadata":{"name":"n1"}}`),
	} {
		samples = append(samples, sample{name: "not read: " + name, body: body, deliberate: unread})
	}
	return sorted(append(samples,
		sample{name: "not read: but JSON, cut", body: withSpec(`"volumes":[{]`)},
		sample{name: "not read: but JSON, a bad number", body: withSpec(`"volumes":[01]`)},
		sample{name: "not read: but JSON, a bad escape", body: withNodeMeta(`"name":"n","managedFields":[{"x":"\q"}]`)},
		sample{name: "not read: but JSON, a raw control character", body: withNodeMeta("\"name\":\"n\",\"selfLink\":\"\x02\"")},
		sample{name: "not read: but JSON, a bad literal", body: withNode(`{"metadata":{"name":"n1"},"status":{"nodeInfo":nil}}`)},
	))
}

func refused() []sample {
	return []sample{
		{name: "trailing: another object", body: both(somePod, someNode) + `{}`, deliberate: trailing},
		{name: "trailing: a letter", body: `{"NodeNames":["a"]}x`, deliberate: trailing},
		{name: "trailing: a bracket", body: `{"NodeNames":["a"]}]`, deliberate: trailing},
		{name: "trailing: NUL", body: "{\"NodeNames\":[\"a\"]}\x00", deliberate: trailing},
		{name: "trailing: after null", body: `null null`, deliberate: trailing},
		{name: "UTF-8: a stray byte in a name", body: withMeta("\"name\":\"a\xffb\""), deliberate: notUTF8},
		{name: "UTF-8: a stray byte in a node's name", body: withNodeMeta("\"name\":\"a\x80b\""), deliberate: notUTF8},
		{name: "UTF-8: cut off in a label", body: withMeta("\"labels\":{\"a\":\"\xe4\xb8\"}"), deliberate: notUTF8},
		{name: "UTF-8: overlong", body: withMeta("\"name\":\"\xc0\xaf\""), deliberate: notUTF8},
		{name: "UTF-8: an encoded surrogate", body: withMeta("\"name\":\"\xed\xa0\x80\""), deliberate: notUTF8},
		{name: "UTF-8: over U+10FFFF", body: withMeta("\"name\":\"\xf4\x90\x80\x80\""), deliberate: notUTF8},
		{name: "UTF-8: in a key that nobody knows", body: "{\"x\xfe\":1,\"NodeNames\":[\"a\"]}", deliberate: notUTF8},
		{name: "UTF-8: in a field that is not read", body: withNodeMeta("\"name\":\"n\",\"generateName\":\"\xff\""), deliberate: notUTF8},
		{name: "depth: 100 arrays", body: `{"NodeNames":["a"],"Other":` + nested("[", "]", 100) + `}`},
		{name: "depth: 50 objects", body: `{"NodeNames":["a"],"Other":` + nested(`{"a":[`, `]}`, 50) + `}`},
		{name: "depth: 200 arrays", body: `{"NodeNames":["a"],"Other":` + nested("[", "]", 200) + `}`, deliberate: tooDeep},
		{name: "depth: 200 objects", body: `{"NodeNames":["a"],"Other":` + objects(200) + `}`, deliberate: tooDeep},
		{name: "depth: 200 in a node", body: withNodeMeta(`"name":"n","managedFields":[{"fieldsV1":` + nested("[", "]", 200) + `}]`), deliberate: tooDeep},
		{name: "depth: 20000 arrays", body: `{"Other":` + nested("[", "]", 20000) + `}`},
	}
}

func podParts() []sample {
	withStatus := func(status string) string {
		return withPod(`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]},"status":` + status + `}`)
	}
	bodies := map[string]string{
		"containers a string":              withSpec(`"containers":"x"`),
		"a container a number":             withSpec(`"containers":[1]`),
		"a container null":                 withSpec(`"containers":[null,{"name":"a"}]`),
		"a container's resources an array": withSpec(`"containers":[{"resources":[]}]`),
		"requests and limits":              withSpec(`"containers":[{"name":"a","resources":{"requests":{"cpu":"250m","memory":"1Gi"},"limits":{"cpu":1.5,"memory":"2Gi","x.y/z":"3"}}}]`),
		"requests a list":                  withSpec(`"containers":[{"resources":{"requests":["cpu"]}}]`),
		"limits a word":                    withSpec(`"containers":[{"resources":{"limits":{"cpu":"much"}}}]`),
		"requests null":                    withSpec(`"containers":[{"resources":{"requests":null,"limits":{"cpu":null}}}]`),
		"restartPolicy a number":           withSpec(`"initContainers":[{"restartPolicy":1}]`),
		"init containers and sidecars":     withSpec(`"initContainers":[{"name":"i","resources":{"requests":{"cpu":"2"}}},{"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}},{"restartPolicy":null}]`),
		"overhead":                         withSpec(`"overhead":{"cpu":"10m"},"containers":[{"resources":{"requests":{"cpu":"1"}}}]`),
		"overhead an array":                withSpec(`"overhead":[]`),
		"pod-level resources":              withSpec(`"resources":{"requests":{"cpu":"3"}},"containers":[{"resources":{"requests":{"cpu":"1","memory":"1"}}}]`),
		"pod-level resources a string":     withSpec(`"resources":"3"`),
		"gates":                            withSpec(`"schedulingGates":[{"name":"a/b"},{},{"name":"c"}]`),
		"gates of strings":                 withSpec(`"schedulingGates":["a"]`),
		"status an array":                  withStatus(`[]`),
		"status null":                      withStatus(`null`),
		"status":                           withStatus(`{"phase":"Running","qosClass":"Burstable","nominatedNodeName":"n9","startTime":"2026-11-21T01:48:22Z"}`),
		"phase a number":                   withStatus(`{"phase":1}`),
		"startTime no time":                withStatus(`{"startTime":"soon"}`),
		"startTime null":                   withStatus(`{"startTime":null}`),
		"a resize":                         withStatus(`{"containerStatuses":[{"name":"a","resources":{"requests":{"cpu":"3"}},"allocatedResources":{"cpu":"2"}}]}`),
		"a resize refused":                 withStatus(`{"conditions":[{"type":"PodResizePending","reason":"Infeasible"}],"containerStatuses":[{"name":"a","resources":{"requests":{"cpu":"500m"}}}]}`),
		"conditions an object":             withStatus(`{"conditions":{}}`),
		"container statuses of a number":   withStatus(`{"containerStatuses":[1]}`),
		"creationTimestamp no time":        withMeta(`"creationTimestamp":"yesterday"`),
		"creationTimestamp null":           withMeta(`"creationTimestamp":null`),
		"creationTimestamp a number":       withMeta(`"creationTimestamp":1`),
		"deletionTimestamp":                withMeta(`"deletionTimestamp":"2026-11-21T01:48:22Z"`),
		"deletionTimestamp, then null":     withMeta(`"deletionTimestamp":"2026-11-21T01:48:22Z","deletionTimestamp":null`),
		"containers decode over the old":   withSpec(`"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}},{"name":"b"}],"containers":[{"resources":{"requests":{"memory":"1"}}}]`),
		"requests twice":                   withSpec(`"containers":[{"resources":{"requests":{"cpu":"1","memory":"1"},"requests":{"cpu":"2"}}}]`),
		"restartPolicy, then null":         withSpec(`"initContainers":[{"restartPolicy":"Always","restartPolicy":null,"resources":{"requests":{"cpu":"1"}}}]`),
		"keys in another case":             withSpec(`"CONTAINERS":[{"NAME":"a","Resources":{"REQUESTS":{"cpu":"1","CPU":"2"}}}]`),
	}
	samples := []sample{}
	for name, body := range bodies {
		samples = append(samples, sample{name: "pod: " + name, body: body})
	}
	return sorted(samples)
}
