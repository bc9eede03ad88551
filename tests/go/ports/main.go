// Command ports records what Go plugins of kube-scheduler and of kubernetes-sigs/scheduler-plugins
// decide about the cases of tests/ports, for the tests of kubextend's ports of these plugins.
//
// It reads JSON from standard input, one cluster or one question about the last cluster a line,
// and writes one answer a question to standard output.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"

	"github.com/paypal/load-watcher/pkg/watcher"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	fit "k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"sigs.k8s.io/scheduler-plugins/apis/config"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesources"
	"sigs.k8s.io/scheduler-plugins/pkg/podstate"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/loadvariationriskbalancing"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/lowriskovercommitment"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/targetloadpacking"
)

type line struct {
	Cluster  *cluster
	Question *question
}

type cluster struct {
	Nodes   []*v1.Node
	Pods    []*v1.Pod
	Metrics watcher.WatcherMetrics
	Objects objects

	infos     []*framework.NodeInfo
	nominated map[string][]*framework.PodInfo
}

type question struct {
	Plugin string
	Args   json.RawMessage
	Pod    *v1.Pod
}

// answer has, for each node in order, the reasons of its rejection and its normalised score; no
// scores if the plugin does not score the pod, or does not score at all. Verdicts are for pods, and
// not for nodes.
type answer struct {
	Rejected [][]string `json:"rejected,omitempty"`
	Scores   []int64    `json:"scores,omitempty"`
	Verdicts []string   `json:"verdicts,omitempty"`
}

var (
	ctx      = context.Background()
	features = feature.Features{
		EnableSidecarContainers:         true,
		EnableInPlacePodVerticalScaling: true,
		EnablePodLevelResources:         true,
	}
	measured watcher.WatcherMetrics
	address  string
)

func main() {
	flags := flag.NewFlagSet("klog", flag.ExitOnError)
	klog.InitFlags(flags)
	must(flags.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL", "-alsologtostderr=false"}))
	klog.SetOutput(discard{})
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		must(json.NewEncoder(out).Encode(&measured))
	}))
	address = server.URL
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	decoder := json.NewDecoder(lines)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	var asked *cluster
	for decoder.More() {
		var line line
		must(decoder.Decode(&line))
		if line.Cluster != nil {
			asked = line.Cluster
			asked.prepare()
			continue
		}
		must(encoder.Encode(asked.answer(line.Question)))
	}
	must(out.Flush())
}

type discard struct{}

func (discard) Write(text []byte) (int, error) { return len(text), nil }

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func (c *cluster) prepare() {
	on := map[string][]*v1.Pod{}
	c.nominated = map[string][]*framework.PodInfo{}
	for _, pod := range c.Pods {
		if pod.Spec.NodeName != "" {
			on[pod.Spec.NodeName] = append(on[pod.Spec.NodeName], pod)
			continue
		}
		info, err := framework.NewPodInfo(pod)
		must(err)
		node := pod.Status.NominatedNodeName
		c.nominated[node] = append(c.nominated[node], info)
	}
	for _, node := range c.Nodes {
		info := framework.NewNodeInfo(on[node.Name]...)
		info.SetNode(node)
		c.infos = append(c.infos, info)
	}
	measured = c.Metrics
}

func (c *cluster) answer(q *question) answer {
	switch q.Plugin {
	case "CapacityScheduling":
		return c.capacity(q)
	case "PodGroupCoscheduling":
		return c.gangs(q)
	}
	pods := &podInformers{all: c.Pods}
	plugin, err := q.plugin(&handle{nominated: c.nominated, informers: pods, objects: c.Objects, infos: c.infos})
	must(err)
	for _, pod := range c.Pods {
		pods.assign(pod)
	}
	return answer{Rejected: c.rejected(plugin, q.Pod), Scores: c.scores(plugin, q.Pod)}
}

func (q *question) plugin(h framework.Handle) (framework.Plugin, error) {
	switch q.Plugin {
	case "NodeResourcesFit":
		args := read(q, &schedconfig.NodeResourcesFitArgs{})
		return fit.NewFit(ctx, args, h, features)
	case "NodeResourcesBalancedAllocation":
		args := read(q, &schedconfig.NodeResourcesBalancedAllocationArgs{})
		return fit.NewBalancedAllocation(ctx, args, h, features)
	case "NodeResourcesAllocatable":
		return noderesources.NewAllocatable(ctx, read(q, &config.NodeResourcesAllocatableArgs{}), h)
	case "PodState":
		return podstate.New(ctx, nil, h)
	case "LoadVariationRiskBalancing":
		args := read(q, &config.LoadVariationRiskBalancingArgs{})
		args.WatcherAddress = address
		return loadvariationriskbalancing.New(ctx, args, h)
	case "LowRiskOverCommitment":
		args := read(q, &config.LowRiskOverCommitmentArgs{})
		args.WatcherAddress = address
		return lowriskovercommitment.New(ctx, args, h)
	case "TargetLoadPacking":
		args := read(q, &config.TargetLoadPackingArgs{})
		args.WatcherAddress = address
		return targetloadpacking.New(ctx, args, h)
	case "NodeResourceTopologyMatch":
		return topologyMatch(q, h)
	case "NetworkOverhead":
		return networkOverhead(q, h)
	case "SySched":
		return sySched(q, h)
	}
	return nil, fmt.Errorf("no plugin %q", q.Plugin)
}

// read decodes the arguments of a question; Go's decoder ignores the case of names.
func read[T runtime.Object](q *question, args T) T {
	must(json.Unmarshal(q.Args, args))
	return args
}

// begun returns the state of an attempt after PreFilter.
func begun(plugin framework.Plugin, pod *v1.Pod) *framework.CycleState {
	state := framework.NewCycleState()
	if before, ok := plugin.(framework.PreFilterPlugin); ok {
		if _, status := before.PreFilter(ctx, state, pod); !status.IsSuccess() {
			log.Fatal(status)
		}
	}
	return state
}

func (c *cluster) rejected(plugin framework.Plugin, pod *v1.Pod) [][]string {
	filter, ok := plugin.(framework.FilterPlugin)
	if !ok {
		return nil
	}
	state := begun(plugin, pod)
	reasons := make([][]string, len(c.infos))
	for i, info := range c.infos {
		if status := filter.Filter(ctx, state, pod, info); status != nil {
			// The plugin names devices in the order of a map.
			reasons[i] = slices.Sorted(slices.Values(status.Reasons()))
		}
	}
	return reasons
}

func (c *cluster) scores(plugin framework.Plugin, pod *v1.Pod) []int64 {
	score, ok := plugin.(framework.ScorePlugin)
	if !ok {
		return nil
	}
	state := begun(plugin, pod)
	if before, ok := plugin.(framework.PreScorePlugin); ok {
		status := before.PreScore(ctx, state, pod, c.infos)
		if status.IsSkip() {
			return nil
		}
		must(status.AsError())
	}
	list := make(framework.NodeScoreList, len(c.infos))
	for i, info := range c.infos {
		points, status := score.Score(ctx, state, pod, info)
		must(status.AsError())
		list[i] = framework.NodeScore{Name: info.Node().Name, Score: points}
	}
	if scale := score.ScoreExtensions(); scale != nil {
		must(scale.NormalizeScore(ctx, state, pod, list).AsError())
	}
	scores := make([]int64, len(list))
	for i, each := range list {
		scores[i] = each.Score
	}
	return scores
}
