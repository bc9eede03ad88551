package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/config"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
	"sigs.k8s.io/scheduler-plugins/pkg/util"
)

// gangHandle is the Handle of Coscheduling, which allows pods that its Permit holds.
type gangHandle struct {
	*handle
	held []*v1.Pod
}

// heldPod is a pod that Permit holds until the plugin allows it.
type heldPod struct {
	framework.WaitingPod
	pod     *v1.Pod
	allowed bool
}

func (h *heldPod) GetPod() *v1.Pod { return h.pod }
func (h *heldPod) Allow(string)    { h.allowed = true }

func (h *gangHandle) IterateOverWaitingPods(call func(framework.WaitingPod)) {
	var left []*v1.Pod
	for _, pod := range h.held {
		held := &heldPod{pod: pod}
		call(held)
		if !held.allowed {
			left = append(left, pod)
		}
	}
	h.held = left
}

func (i sharedInformer) AddIndexers(cache.Indexers) error { return nil }

func (l podLister) Pods(namespace string) corelisters.PodNamespaceLister {
	var there []*v1.Pod
	for _, pod := range l.all {
		if pod.Namespace == namespace {
			there = append(there, pod)
		}
	}
	return inNamespace{pods: podLister{all: there}}
}

// inNamespace lists the pods of one namespace.
type inNamespace struct {
	corelisters.PodNamespaceLister
	pods podLister
}

func (l inNamespace) List(selector labels.Selector) ([]*v1.Pod, error) { return l.pods.List(selector) }

// gangs returns a verdict for the pod of a question, and then for each pod of its PodGroup that is
// on no node: that of PreFilter, and if PreFilter lets the pod pass, that of Permit.
func (c *cluster) gangs(q *question) answer {
	endLast()
	informing, end := context.WithCancel(ctx)
	endLast = end
	pods := &podInformers{all: append([]*v1.Pod{q.Pod}, c.Pods...)}
	h := &gangHandle{handle: &handle{informers: pods, objects: c.Objects, infos: c.infos}}
	made, err := coscheduling.New(informing, read(q, &config.CoschedulingArgs{}), h)
	must(err)
	plugin := made.(*coscheduling.Coscheduling)
	for _, pod := range c.Pods {
		pods.assign(pod)
	}
	group := util.GetPodGroupFullName(q.Pod)
	verdicts := []string{}
	for _, pod := range pods.all {
		if pod == q.Pod || (group != "" && pod.Spec.NodeName == "" && util.GetPodGroupFullName(pod) == group) {
			verdicts = append(verdicts, h.verdict(plugin, pod))
		}
	}
	return answer{Verdicts: verdicts}
}

func (h *gangHandle) verdict(plugin *coscheduling.Coscheduling, pod *v1.Pod) string {
	state := framework.NewCycleState()
	if _, status := plugin.PreFilter(ctx, state, pod); !status.IsSuccess() {
		switch message := status.Message(); {
		case strings.Contains(message, "cannot find enough sibling pods"):
			return "PreFilter: few"
		case strings.HasPrefix(message, "resource gap"):
			return "PreFilter: resources"
		default:
			log.Fatal(message)
		}
	}
	held := len(h.held)
	status, wait := plugin.Permit(ctx, state, pod, "node-0")
	switch {
	case status.IsSuccess():
		return fmt.Sprintf("Permit: runs with %d", held-len(h.held))
	case status.IsWait():
		h.held = append(h.held, pod)
		return fmt.Sprintf("Permit: waits %.0f", wait.Seconds())
	case status.Message() == "PodGroup not found":
		return "Permit: no PodGroup"
	}
	log.Fatal(status)
	return ""
}
