package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"gopkg.in/inf.v0"
	v1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"
)

type podRequestsCase struct {
	// As it is written: the order of keys counts.
	Pod string `json:"pod"`
	// What the pod asks of its node, rounded away from zero; where 64 bits do not do, the nearest
	// number that fits.
	Requests map[string]podAmount `json:"requests"`
}

type podAmount struct {
	Rounded      int64 `json:"rounded"`
	RoundedMilli int64 `json:"roundedMilli"`
}

type timeCase struct {
	Text  string `json:"text"`
	Valid bool   `json:"valid"`
}

// As kube-scheduler 1.36 asks with the feature gates that are on by default:
// pkg/scheduler/framework/types.go CalculateResource.
var schedulersOptions = podresource.PodResourcesOptions{
	UseStatusResources: true,
	InPlacePodLevelResourcesVerticalScalingEnabled: true,
}

func podRequests() file {
	var cases []podRequestsCase
	for _, pod := range append(podsByHand, generatedPods()...) {
		cases = append(cases, answerPodRequests(pod))
	}
	return file{version("k8s.io/component-helpers"), []section{
		list("cases", cases), list("times", answerTimes()),
	}}
}

func answerPodRequests(text string) podRequestsCase {
	var pod v1.Pod
	if err := json.Unmarshal([]byte(text), &pod); err != nil {
		panic(fmt.Errorf("%s: %w", text, err))
	}
	requests := map[string]podAmount{}
	lowest, highest := inf.NewDec(-math.MaxInt64, 0), inf.NewDec(math.MaxInt64, 0)
	for name, quantity := range podresource.PodRequests(&pod, schedulersOptions) {
		amount := within(new(inf.Dec).Set(quantity.AsDec()), lowest, highest)
		milli := within(amount, inf.NewDec(math.MinInt64, 3), inf.NewDec(math.MaxInt64, 3))
		requests[string(name)] = podAmount{awayFromZero(amount, 0).Int64(), awayFromZero(milli, 3).Int64()}
	}
	return podRequestsCase{text, requests}
}

var podsByHand = []string{
	`{}`,
	`{"spec":{"containers":[]}}`,
	`{"spec":{"containers":[{"name":"a"}]}}`,
	`{"spec":{"containers":[{"name":"a","resources":{"requests":{}}}]}}`,
	`{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1"}}}]}}`,
	`{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"100m","memory":"1Gi"}}}]}}`,
	`{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"100m"}}},{"name":"b","resources":{"requests":{"cpu":"250m","memory":"64Mi"}}}]}}`,
	`{"spec":{"containers":[{"name":"a","resources":{"requests":{"nvidia.com/gpu":"2","ephemeral-storage":"1G","hugepages-2Mi":"4Mi","pods":"1"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"0","memory":null,"x.y/z":0}}}]}}`,
	// An init container that needs more than all containers together, and one that needs less.
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1","memory":"1Gi"}}}],"initContainers":[{"name":"i","resources":{"requests":{"cpu":"3","memory":"512Mi"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}],"initContainers":[{"name":"i","resources":{"requests":{"cpu":"2"}}},{"name":"j","resources":{"requests":{"cpu":"1500m","memory":"1"}}}]}}`,
	// Sidecars add to the containers and to the init containers behind them.
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}],"initContainers":[{"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"500m"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}],"initContainers":[{"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"500m"}}},{"name":"i","resources":{"requests":{"cpu":"1200m"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}],"initContainers":[{"name":"i","resources":{"requests":{"cpu":"1200m"}}},{"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"500m"}}}]}}`,
	`{"spec":{"initContainers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}},{"resources":{"requests":{"cpu":"2","memory":"1"}}},{"restartPolicy":"Always","resources":{"requests":{"cpu":"3"}}},{"resources":{"requests":{"cpu":"100m"}}}],"containers":[{"resources":{"requests":{"cpu":"200m"}}}]}}`,
	`{"spec":{"initContainers":[{"restartPolicy":"always","resources":{"requests":{"cpu":"1"}}},{"restartPolicy":"","resources":{"requests":{"cpu":"2"}}},{"restartPolicy":null,"resources":{"requests":{"cpu":"3"}}},{"restartPolicy":"Never","resources":{"requests":{"cpu":"4"}}}]}}`,
	`{"spec":{"containers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}}]}}`,
	`{"spec":{"ephemeralContainers":[{"name":"e","resources":{"requests":{"cpu":"1"}}}]}}`,
	// Overhead.
	`{"spec":{"overhead":{"cpu":"250m","memory":"120Mi"}}}`,
	`{"spec":{"overhead":{"cpu":"250m","memory":"120Mi"},"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`,
	`{"spec":{"overhead":{"cpu":"250m"},"containers":[{"resources":{"requests":{"cpu":"1"}}}],"initContainers":[{"resources":{"requests":{"cpu":"2"}}}]}}`,
	`{"spec":{"overhead":{},"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`,
	// Resources of the pod as a whole.
	`{"spec":{"resources":{"requests":{"cpu":"5"}},"containers":[{"resources":{"requests":{"cpu":"1","memory":"1"}}}]}}`,
	`{"spec":{"resources":{"requests":{"cpu":"500m","memory":"2Gi"}},"overhead":{"cpu":"1"},"containers":[{"resources":{"requests":{"cpu":"1","memory":"1Gi"}}}],"initContainers":[{"resources":{"requests":{"cpu":"9"}}}]}}`,
	`{"spec":{"resources":{"requests":{"nvidia.com/gpu":"5"}},"containers":[{"resources":{"requests":{"nvidia.com/gpu":"1"}}}]}}`,
	`{"spec":{"resources":{"requests":{"nvidia.com/gpu":"5","hugepages-2Mi":"2Mi"}},"containers":[{"resources":{"requests":{"nvidia.com/gpu":"1"}}}]}}`,
	`{"spec":{"resources":{"requests":{"hugepages-":"1","ephemeral-storage":"1Gi","cpu":0}}}}`,
	`{"spec":{"resources":{"limits":{"cpu":"5"}},"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`,
	`{"spec":{"resources":{"requests":{}},"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`,
	`{"spec":{"resources":null,"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`,
	// Resized in place: what the kubelet says of the containers counts too.
	`{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]},"status":{"containerStatuses":[{"name":"a","resources":{"requests":{"cpu":"2"}}}]}}`,
	`{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]},"status":{"containerStatuses":[{"name":"a","allocatedResources":{"cpu":"3"}}]}}`,
	`{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]},"status":{"containerStatuses":[{"name":"a","allocatedResources":{"cpu":"3","memory":"1"},"resources":{}}]}}`,
	`{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]},"status":{"containerStatuses":[{"name":"a","allocatedResources":{"cpu":"3"},"resources":null}]}}`,
	`{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"4"}}}]},"status":{"conditions":[{"type":"PodResizePending","reason":"Infeasible"}],"containerStatuses":[{"name":"a","allocatedResources":{"cpu":"1"},"resources":{"requests":{"cpu":"2"}}}]}}`,
	`{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"4"}}}]},"status":{"conditions":[{"type":"PodResizePending","reason":"Deferred"},{"type":"PodResizePending","reason":"Infeasible"}],"containerStatuses":[{"name":"a","allocatedResources":{"cpu":"1"},"resources":{"requests":{"cpu":"2"}}}]}}`,
	`{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"4"}}}]},"status":{"conditions":[{"type":"Ready","reason":"Infeasible"}],"containerStatuses":[{"name":"a","allocatedResources":{"cpu":"1"},"resources":{"requests":{"cpu":"2"}}}]}}`,
	`{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]},"status":{"containerStatuses":[{"name":"b","resources":{"requests":{"cpu":"2"}}}]}}`,
	`{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]},"status":{"containerStatuses":[{"name":"a","resources":{"requests":{"cpu":"2"}}},{"name":"a","resources":{"requests":{"cpu":"3"}}}],"initContainerStatuses":[{"name":"a","resources":{"requests":{"cpu":"1500m"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]},"status":{"containerStatuses":[{"resources":{"requests":{"cpu":"2"}}}]}}`,
	`{"spec":{"initContainers":[{"name":"i","resources":{"requests":{"cpu":"1"}}}]},"status":{"initContainerStatuses":[{"name":"i","resources":{"requests":{"cpu":"2"}}}]}}`,
	`{"spec":{"initContainers":[{"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}}]},"status":{"initContainerStatuses":[{"name":"s","resources":{"requests":{"cpu":"2"}}}]}}`,
	`{"spec":{"initContainers":[{"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}}]},"status":{"containerStatuses":[{"name":"s","resources":{"requests":{"cpu":"2"}}}]}}`,
	`{"spec":{"resources":{"requests":{"cpu":"1"}}},"status":{"resources":{"requests":{"cpu":"2"}},"allocatedResources":{"cpu":"3"}}}`,
	`{"spec":{"resources":{"requests":{"cpu":"1"}}},"status":{"allocatedResources":{"cpu":"3"}}}`,
	`{"spec":{"resources":{"requests":{"cpu":"4","memory":"1"}}},"status":{"conditions":[{"type":"PodResizePending","reason":"Infeasible"}],"resources":{"requests":{"cpu":"2"}}}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"4"}}}]},"status":{"resources":{"requests":{"cpu":"9"}}}}`,
	// Odd quantities.
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"0.1n"}}},{"resources":{"requests":{"cpu":"999999999n"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":1}}},{"resources":{"requests":{"cpu":0.0005}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"0.5m"}}},{"resources":{"requests":{"cpu":"0.5m"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"memory":"0.5"}}},{"resources":{"requests":{"memory":"0.5"}}},{"resources":{"requests":{"memory":"0.1"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"memory":"8Ei"}}},{"resources":{"requests":{"memory":"8Ei"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"memory":"1e30"}}},{"resources":{"requests":{"memory":"1"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"9223372036854775807"}}},{"resources":{"requests":{"cpu":"1m"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"-1"}}},{"resources":{"requests":{"cpu":"250m"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"-250m"}}},{"resources":{"requests":{"cpu":"1"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"-1.5"}}},{"resources":{"requests":{"cpu":"-1.6"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"-1"}}}],"initContainers":[{"resources":{"requests":{"cpu":"-250m"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":" 1 "}}},{"resources":{"requests":{"cpu":"1","cpu":"2"}}}]}}`,
	`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1","memory":"1"}},"Resources":{"requests":{"cpu":"2"}}}]}}`,
	`{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}],"Containers":[{"name":"b"},{"resources":{"requests":{"cpu":"4"}}}]}}`,
}

var podQuantities = []string{
	`"100m"`, `"250m"`, `"1"`, `"2"`, `3`, `"0"`, `"1500m"`, `"1Gi"`, `"512Mi"`, `"1.5Gi"`, `"0.1"`, `"1n"`, `"7u"`, `"1e3"`,
	`"12E6"`, `"8Pi"`, `"4Ei"`, `"-1"`, `"0.0001Ki"`, `null`,
}

var podResources = []string{"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu", "a.b/c"}

// generatedPods have every part that counts, in every combination that chance brings.
func generatedPods() []string {
	random := chance(5)
	resources := func() string {
		var entries []string
		for _, name := range podResources {
			if random.IntN(2) == 0 {
				entries = append(entries, fmt.Sprintf("%q:%s", name, pick(random, podQuantities)))
			}
		}
		return "{" + strings.Join(entries, ",") + "}"
	}
	maybe := func(one int, text string) string {
		if random.IntN(one) > 0 {
			return ""
		}
		return text
	}
	containers := func(most int, policies ...string) string {
		var all []string
		for range random.IntN(most + 1) {
			all = append(all, fmt.Sprintf(`{"name":%q,%s"resources":{"requests":%s}}`,
				pick(random, []string{"a", "b", "c"}), pick(random, policies), resources()))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	statuses := func() string {
		return fmt.Sprintf(`[{"name":%q,"allocatedResources":%s%s}]`, pick(random, []string{"a", "b", "c"}),
			resources(), maybe(2, `,"resources":{"requests":`+resources()+`}`))
	}
	var pods []string
	for range 120 {
		spec := []string{
			`"containers":` + containers(3, ""),
			`"initContainers":` + containers(4, "", `"restartPolicy":"Always",`),
			maybe(3, `"overhead":`+resources()),
			maybe(3, `"resources":{"requests":`+resources()+`}`),
		}
		status := []string{
			maybe(3, `"containerStatuses":`+statuses()),
			maybe(3, `"initContainerStatuses":`+statuses()),
			maybe(3, `"resources":{"requests":`+resources()+`},"allocatedResources":`+resources()),
			maybe(3, `"conditions":[{"type":"PodResizePending","reason":"Infeasible"}]`),
		}
		pods = append(pods, fmt.Sprintf(`{"spec":{%s},"status":{%s}}`, joined(spec), joined(status)))
	}
	return pods
}

func joined(fields []string) string {
	var present []string
	for _, field := range fields {
		if field != "" {
			present = append(present, field)
		}
	}
	return strings.Join(present, ",")
}

var timeTexts = []string{
	"2026-11-21T01:48:22Z", "2026-11-21T01:48:22.5Z", "2026-11-21T01:48:22,5Z", "2026-11-21T01:48:22.123456789123Z",
	"2026-11-21T01:48:22.Z", "2026-11-21T01:48:22+01:00", "2026-11-21T01:48:22-23:59", "2026-11-21T01:48:22+24:00",
	"2026-11-21T01:48:22+24:60", "2026-11-21T01:48:22+24:61", "2026-11-21T01:48:22+25:00", "2026-11-21T01:48:22+0100",
	"2026-11-21T01:48:22", "2026-11-21T1:48:22Z", "2026-11-21T1:8:22Z", "2026-11-21T01:48:2Z", "2026-11-21T24:00:00Z",
	"2026-11-21T23:60:00Z", "2026-11-21T23:59:60Z", "2026-11-31T00:00:00Z", "2026-02-29T00:00:00Z", "2024-02-29T00:00:00Z",
	"1900-02-29T00:00:00Z", "2000-02-29T00:00:00Z", "2026-00-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-00T00:00:00Z",
	"2026-1-01T00:00:00Z", "2026-01-1T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "10000-01-01T00:00:00Z",
	"2026-11-21t01:48:22Z", "2026-11-21T01:48:22z", "2026-11-21 01:48:22Z", "2026-11-21", "", " ", "now",
	"2026-11-21T01:48:22ZZ", "2026-11-21T01:48:22Z ", " 2026-11-21T01:48:22Z", "2026-11-21T01:48:22.5+01:00", "-026-11-21T01:48:22Z",
	"2026-11-21T01:48:22.5", "2026-11-21T01:48:22+01:0", "2026-11-21T01:48:22+1:00", "２026-11-21T01:48:22Z",
}

func answerTimes() []timeCase {
	var cases []timeCase
	for _, text := range timeTexts {
		_, err := time.Parse(time.RFC3339, text)
		cases = append(cases, timeCase{text, err == nil})
	}
	return cases
}
