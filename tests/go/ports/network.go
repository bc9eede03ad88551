package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/config"
	"sigs.k8s.io/scheduler-plugins/pkg/networkaware/networkoverhead"
)

// endLast ends the informers of the last plugin.
var endLast = func() {}

func networkOverhead(q *question, h framework.Handle) (framework.Plugin, error) {
	endLast()
	informing, end := context.WithCancel(ctx)
	endLast = end
	return networkoverhead.New(informing, read(q, &config.NetworkOverheadArgs{}), h)
}

func (i podInformer) Lister() corelisters.PodLister { return podLister{all: i.pods.all} }

// podLister lists all pods of the cluster.
type podLister struct {
	corelisters.PodLister
	all []*v1.Pod
}

func (l podLister) List(selector labels.Selector) ([]*v1.Pod, error) {
	var found []*v1.Pod
	for _, pod := range l.all {
		if selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, pod)
		}
	}
	return found, nil
}

func (h *handle) SnapshotSharedLister() framework.SharedLister { return snapshot{infos: h.infos} }

// snapshot has all nodes of the cluster.
type snapshot struct {
	framework.SharedLister
	framework.NodeInfoLister
	infos []*framework.NodeInfo
}

func (s snapshot) NodeInfos() framework.NodeInfoLister  { return s }
func (s snapshot) List() ([]*framework.NodeInfo, error) { return s.infos, nil }
func (s snapshot) Get(name string) (*framework.NodeInfo, error) {
	for _, info := range s.infos {
		if info.Node().Name == name {
			return info, nil
		}
	}
	return nil, fmt.Errorf("no node %q", name)
}
