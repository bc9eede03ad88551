package main

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	corev1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran"
)

// handle is what the plugins are given. A call of any method that is not here panics.
type handle struct {
	framework.Handle
	nominated map[string][]*framework.PodInfo
	informers *podInformers
	objects   objects
	infos     []*framework.NodeInfo
}

func (h *handle) NominatedPodsForNode(node string) []*framework.PodInfo {
	return h.nominated[node]
}

func (h *handle) SharedInformerFactory() informers.SharedInformerFactory {
	return h.informers
}

// podInformers keeps the event handler that a plugin adds for pods. The load-aware plugins get no
// events: the cases say when each pod came to its node.
type podInformers struct {
	informers.SharedInformerFactory
	assigned *trimaran.PodAssignEventHandler
	all      []*v1.Pod
	told     cache.ResourceEventHandler
}

type coreGroup struct {
	core.Interface
	pods *podInformers
}

type coreVersion struct {
	corev1.Interface
	pods *podInformers
}

type podInformer struct {
	corev1.PodInformer
	pods *podInformers
}

type sharedInformer struct {
	cache.SharedIndexInformer
	pods *podInformers
}

func (p *podInformers) Core() core.Interface              { return coreGroup{pods: p} }
func (g coreGroup) V1() corev1.Interface                  { return coreVersion{pods: g.pods} }
func (v coreVersion) Pods() corev1.PodInformer            { return podInformer{pods: v.pods} }
func (i podInformer) Informer() cache.SharedIndexInformer { return sharedInformer{pods: i.pods} }

func (i sharedInformer) AddEventHandler(
	added cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	if filtering, ok := added.(cache.FilteringResourceEventHandler); ok {
		i.pods.assigned = filtering.Handler.(*trimaran.PodAssignEventHandler)
		return nil, nil
	}
	i.pods.told = added
	return nil, nil
}

// afterAll is a time after every measurement.
var afterAll = time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC)

// assign tells the plugin that a pod came to its node at the time in the pod's status; a pod
// without such a time came after every measurement.
func (p *podInformers) assign(pod *v1.Pod) {
	if p.told != nil && pod.Spec.NodeName != "" {
		p.told.OnAdd(pod, true)
	}
	if p.assigned == nil || pod.Spec.NodeName == "" {
		return
	}
	p.assigned.OnAdd(pod, true)
	at := afterAll
	if pod.Status.StartTime != nil {
		at = pod.Status.StartTime.Time
	}
	there := p.assigned.ScheduledPodsCache[pod.Spec.NodeName]
	there[len(there)-1].Timestamp = at
}
