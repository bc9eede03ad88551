package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubectl/pkg/util/qos"
)

type qosCase struct {
	// As it is written: the order of keys counts.
	Pod string `json:"pod"`
	QOS string `json:"qos"`
}

// What kube-apiserver 1.36 writes into status.qosClass, with the feature gates that are on by
// default: kubectl has a copy of pkg/apis/core/v1/helper/qos.
func qosClasses() file {
	var cases []qosCase
	for _, pod := range append(podsOfEachClass, podsOfAnyClass()...) {
		cases = append(cases, answerQOS(pod))
	}
	return file{version("k8s.io/kubectl"), []section{list("cases", cases)}}
}

func answerQOS(text string) qosCase {
	var pod v1.Pod
	if err := json.Unmarshal([]byte(text), &pod); err != nil {
		panic(fmt.Errorf("%s: %w", text, err))
	}
	return qosCase{text, string(qos.GetPodQOS(&pod))}
}

var podsOfEachClass = []string{
	`{}`,
	`{"status":{"qosClass":"Burstable"}}`,
	`{"spec":{"containers":[{}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"limits":{"cpu":"1"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"limits":{"cpu":"1","memory":"1"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"1000m","memory":"1"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"1","memory":"1"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"0"},"limits":{"memory":"0"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"nvidia.com/gpu":"1"},"limits":{"nvidia.com/gpu":"1"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1","memory":"1","nvidia.com/gpu":"1"},"limits":{"cpu":"1","memory":"1"}}}]}}`,
	// Two containers whose sums are equal, though neither's own are.
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"2","memory":"1"}}},{"resources":{"requests":{"cpu":"2","memory":"1"},"limits":{"cpu":"1","memory":"1"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"1","memory":"1"}}},{}]}}`,
	// Init containers and sidecars count, ephemeral ones do not.
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"1","memory":"1"}}}],"initContainers":[{}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"1","memory":"1"}}}],"initContainers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"1","memory":"1"}}}]}}`,
	`{"spec":{"initContainers":[{"resources":{"requests":{"cpu":"1"}}}],"containers":[{}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"1","memory":"1"}}}],"ephemeralContainers":[{"name":"e"}]}}`,
	// Resources of the pod as a whole replace those of its containers.
	`{"spec":{"resources":{},"containers":[{"resources":{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"1","memory":"1"}}}]}}`,
	`{"spec":{"resources":null,"containers":[{"resources":{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"1","memory":"1"}}}]}}`,
	`{"spec":{"resources":{"requests":{"cpu":"1","memory":"1"}},"containers":[{"resources":{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"1","memory":"1"}}}]}}`,
	`{"spec":{"resources":{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"1","memory":"1"}},"containers":[{}]}}`,
	`{"spec":{"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"1"}},"containers":[{}]}}`,
	`{"spec":{"resources":{"limits":{"cpu":"1","memory":"1"}},"containers":[{}]}}`,
	`{"spec":{"resources":{"requests":{"hugepages-2Mi":"2Mi"},"limits":{"hugepages-2Mi":"2Mi"}},"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`,
	// Less than a thousandth counts, less than nothing does not.
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"0.5m","memory":"1"},"limits":{"cpu":"1m","memory":"1"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"-1"},"limits":{"memory":"-1"}}}]}}`,
}

// podsOfAnyClass makes pods of few different amounts, so that many of them are Guaranteed.
func podsOfAnyClass() []string {
	random := rand.New(rand.NewPCG(6, 36))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	resourceList := func() string {
		return pick(`{}`, `{"cpu":"1"}`, `{"memory":"1Mi"}`, `{"cpu":"1","memory":"1Mi"}`, `{"cpu":"1","memory":"1Mi"}`,
			`{"cpu":"1000m","memory":"1048576"}`, `{"cpu":"2","memory":"0"}`, `{"cpu":"1","memory":"1Mi","a.b/c":"1"}`)
	}
	resources := func() string {
		if random.IntN(2) == 0 {
			both := resourceList()
			return fmt.Sprintf(`{"requests":%s,"limits":%s}`, both, both)
		}
		return fmt.Sprintf(`{"requests":%s,"limits":%s}`, resourceList(), resourceList())
	}
	containers := func(most int) string {
		var each []string
		for range random.IntN(most + 1) {
			each = append(each, fmt.Sprintf(`{"resources":%s}`, resources()))
		}
		return "[" + strings.Join(each, ",") + "]"
	}
	var pods []string
	for range 150 {
		whole := "null"
		if random.IntN(4) == 0 {
			whole = resources()
		}
		pods = append(pods, fmt.Sprintf(`{"spec":{"resources":%s,"containers":%s,"initContainers":%s}}`,
			whole, containers(2), containers(1)))
	}
	return pods
}
