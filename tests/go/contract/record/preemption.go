package main

func preemptionSamples() []sample {
	const pod = `{"metadata":{"name":"p","namespace":"ns","uid":"u1","labels":{"high-comm":"true"}}}`
	meta := func(victims string) string {
		return `{"Pod":` + pod + `,"NodeNameToVictims":null,"NodeNameToMetaVictims":` + victims + `}`
	}
	full := func(victims string) string {
		return `{"Pod":` + pod + `,"NodeNameToVictims":` + victims + `,"NodeNameToMetaVictims":null}`
	}
	return []sample{
		{name: "meta", body: meta(`{"n1":{"Pods":[{"UID":"a"},{"UID":"b"}],"NumPDBViolations":1}}`)},
		{name: "meta: two nodes", body: meta(`{"n2":{"Pods":[{"UID":"a"}],"NumPDBViolations":0},"n1":{"Pods":[{"UID":"b"}],"NumPDBViolations":2}}`)},
		{name: "meta: lower case", body: `{"pod":` + pod + `,"nodeNameToMetaVictims":{"n1":{"pods":[{"uid":"a"}],"numPDBViolations":3}}}`},
		{name: "meta: all upper case", body: `{"POD":` + pod + `,"NODENAMETOMETAVICTIMS":{"n1":{"PODS":[{"UID":"a"}],"NUMPDBVIOLATIONS":3}}}`},
		{name: "meta: long s in Pods", body: meta(`{"n1":{"Pod\u017f":[{"UID":"a"}]}}`)},
		{name: "meta: long s in the map's name", body: `{"Pod":` + pod + `,"NodeNameToMetaVictim` + "\u017f" + `":{"n1":{"Pods":[{"UID":"a"}]}}}`},
		{name: "meta: node names keep their case", body: meta(`{"n1":{"Pods":[{"UID":"a"}]},"N1":{"Pods":[{"UID":"b"}]}}`)},
		{name: "meta: an empty map", body: meta(`{}`)},
		{name: "meta: an array", body: meta(`[]`)},
		{name: "meta: a node with null", body: meta(`{"n1":null}`)},
		{name: "meta: a node with an empty object", body: meta(`{"n1":{}}`)},
		{name: "meta: a node with an array", body: meta(`{"n1":[]}`)},
		{name: "meta: null pods", body: meta(`{"n1":{"Pods":null,"NumPDBViolations":4}}`)},
		{name: "meta: no pods", body: meta(`{"n1":{"Pods":[],"NumPDBViolations":4}}`)},
		{name: "meta: a pod without UID", body: meta(`{"n1":{"Pods":[{}]}}`)},
		{name: "meta: UID null", body: meta(`{"n1":{"Pods":[{"UID":null}]}}`)},
		{name: "meta: UID a number", body: meta(`{"n1":{"Pods":[{"UID":7}]}}`)},
		{name: "meta: UID twice", body: meta(`{"n1":{"Pods":[{"UID":"a","uid":"b"}]}}`)},
		{name: "meta: UID with escapes", body: meta(`{"n1":{"Pods":[{"U\u0049D":"\u0061\/\ud83d\ude00"}]}}`)},
		{name: "meta: PDB count null", body: meta(`{"n1":{"Pods":[{"UID":"a"}],"NumPDBViolations":null}}`)},
		{name: "meta: PDB count a fraction", body: meta(`{"n1":{"Pods":[{"UID":"a"}],"NumPDBViolations":3.0}}`)},
		{name: "meta: PDB count with an exponent", body: meta(`{"n1":{"Pods":[{"UID":"a"}],"NumPDBViolations":1e1}}`)},
		{name: "meta: PDB count a string", body: meta(`{"n1":{"Pods":[{"UID":"a"}],"NumPDBViolations":"3"}}`)},
		{name: "meta: PDB count negative", body: meta(`{"n1":{"Pods":[{"UID":"a"}],"NumPDBViolations":-3}}`)},
		{name: "meta: PDB count minus zero", body: meta(`{"n1":{"Pods":[{"UID":"a"}],"NumPDBViolations":-0}}`)},
		{name: "meta: PDB count the largest int64", body: meta(`{"n1":{"Pods":[{"UID":"a"}],"NumPDBViolations":9223372036854775807}}`)},
		{name: "meta: PDB count over int64", body: meta(`{"n1":{"Pods":[{"UID":"a"}],"NumPDBViolations":9223372036854775808}}`)},
		{name: "meta: one node twice, the last counts alone", body: meta(`{"n1":{"Pods":[{"UID":"a"}],"NumPDBViolations":5},"n1":{"Pods":[{"UID":"b"}]}}`)},
		{name: "meta: one node twice, by an escape", body: meta(`{"n1":{"Pods":[{"UID":"a"}],"NumPDBViolations":5},"n\u0031":{"Pods":[{"UID":"b"}]}}`)},
		{name: "meta: the map twice", body: `{"Pod":` + pod + `,"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"a"}]},"n2":{"Pods":[{"UID":"b"}]}},"nodenametometavictims":{"n2":{"Pods":[{"UID":"c"}]},"n3":{"Pods":[{"UID":"d"}]}}}`},
		{name: "meta: the map, then null", body: `{"Pod":` + pod + `,"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"a"}]}},"NodeNameToMetaVictims":null}`},
		{name: "meta: Pods twice decode over the old ones", body: meta(`{"n1":{"Pods":[{"UID":"a"},{"UID":"b"}],"Pods":[{"UID":"c"}]}}`)},
		{name: "full", body: full(`{"n1":{"Pods":[{"metadata":{"name":"v","uid":"a"},"spec":{"priority":1}},{"metadata":{"uid":"b"}}],"NumPDBViolations":1}}`)},
		{name: "full: lower case", body: `{"pod":` + pod + `,"nodeToVictims":{"n9":{"pods":[]}},"nodeNameToVictims":{"n1":{"pods":[{"metadata":{"uid":"a"}}],"numPDBViolations":1}}}`},
		{name: "full: a pod without metadata", body: full(`{"n1":{"Pods":[{}]}}`)},
		{name: "full: metadata null", body: full(`{"n1":{"Pods":[{"metadata":null}]}}`)},
		{name: "full: metadata a string", body: full(`{"n1":{"Pods":[{"metadata":"x"}]}}`)},
		{name: "full: uid a number", body: full(`{"n1":{"Pods":[{"metadata":{"uid":1}}]}}`)},
		{name: "full: metadata twice keeps the uid", body: full(`{"n1":{"Pods":[{"metadata":{"uid":"a"},"metadata":{"name":"x"}}]}}`)},
		{name: "full: a victim's spec of a wrong type", body: full(`{"n1":{"Pods":[{"metadata":{"uid":"a"},"spec":{"volumes":7}}]}}`), deliberate: unread},
		{name: "no maps", body: `{"Pod":` + pod + `}`},
		{name: "both maps null", body: meta(`null`)},
		{name: "null", body: `null`},
		{name: "an array", body: `[]`},
		{name: "Pod null", body: `{"Pod":null,"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"a"}]}}}`},
		{name: "Pod a string", body: `{"Pod":"p","NodeNameToMetaVictims":{}}`},
		{name: "trailing bytes", body: meta(`{}`) + `{}`, deliberate: trailing},
		{name: "invalid UTF-8 in a node's name", body: meta("{\"n\xff\":{\"Pods\":[]}}"), deliberate: notUTF8},
	}
}

func bindingSamples() []sample {
	return []sample{
		{name: "binding", body: `{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n"}`},
		{name: "lower case", body: `{"podName":"p","podNamespace":"ns","podUID":"u","node":"n"}`},
		{name: "upper case", body: `{"PODNAME":"p","PODNAMESPACE":"ns","PODUID":"u","NODE":"n"}`},
		{name: "long s", body: `{"PodName` + "\u017f" + `pace":"ns","NodeName":"x"}`},
		{name: "escapes in keys", body: `{"\u0050odName":"p","Nod\u0065":"n"}`},
		{name: "escapes in values", body: `{"PodName":"a\"\\\/\b\f\n\r\t\u00e9\ud834\udd1e"}`},
		{name: "a lone surrogate", body: `{"PodName":"a\ud834b"}`},
		{name: "two high surrogates", body: `{"PodName":"\ud834\ud834\udd1e"}`},
		{name: "the last of two counts", body: `{"Node":"a","node":"b","Node":"c"}`},
		{name: "null leaves the old one", body: `{"Node":"a","Node":null}`},
		{name: "nulls", body: `{"PodName":null,"PodNamespace":null,"PodUID":null,"Node":null}`},
		{name: "unknown fields", body: `{"Node":"a","Other":{"x":[1,2.5e300,{"y":null}]}}`},
		{name: "empty object", body: `{}`},
		{name: "null", body: `null`},
		{name: "an array", body: `[]`},
		{name: "a string", body: `"x"`},
		{name: "nothing", body: ``},
		{name: "a number as node", body: `{"Node":1}`},
		{name: "an object as UID", body: `{"PodUID":{}}`},
		{name: "a boolean as name", body: `{"PodName":true}`},
		{name: "whitespace", body: " \t\r\n{ \"Node\" :\n\"n\" } \n"},
		{name: "a form feed is no whitespace", body: "\f{}"},
		{name: "a comma too many", body: `{"Node":"n",}`},
		{name: "cut off", body: `{"Node":"n`},
		{name: "NUL in a name", body: `{"Node":"n\u0000"}`},
		{name: "a raw tab in a name", body: "{\"Node\":\"n\t\"}"},
		{name: "trailing bytes", body: `{"Node":"n"}x`, deliberate: trailing},
		{name: "invalid UTF-8", body: "{\"Node\":\"n\xc3\x28\"}", deliberate: notUTF8},
	}
}
