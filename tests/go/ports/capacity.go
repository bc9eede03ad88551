package main

import (
	"encoding/json"
	"log"
	"reflect"
	"strings"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	"sigs.k8s.io/scheduler-plugins/pkg/capacityscheduling"
)

// capacityArgs are what a question about CapacityScheduling has in place of arguments. The pod of
// the question and the pods of the cluster, in this order, get the namespaces and priorities in
// turn.
type capacityArgs struct {
	Quotas     []*v1alpha1.ElasticQuota
	Namespaces []string
	Priorities []*int32
}

// addElasticQuota is what the plugin does when its informer shows an ElasticQuota. The plugin's own
// constructor would need a kube-apiserver.
//
//go:linkname addElasticQuota sigs.k8s.io/scheduler-plugins/pkg/capacityscheduling.(*CapacityScheduling).addElasticQuota
func addElasticQuota(plugin *capacityscheduling.CapacityScheduling, quota any)

// capacityHandle is the Handle of CapacityScheduling, which asks for all nodes.
type capacityHandle struct {
	*handle
	infos []*framework.NodeInfo
}

type nodeLister struct {
	framework.NodeInfoLister
	infos []*framework.NodeInfo
}

func (h capacityHandle) SnapshotSharedLister() framework.SharedLister { return h }
func (h capacityHandle) NodeInfos() framework.NodeInfoLister          { return nodeLister{infos: h.infos} }
func (h capacityHandle) StorageInfos() framework.StorageInfoLister    { return nil }
func (l nodeLister) List() ([]*framework.NodeInfo, error)             { return l.infos, nil }

// capacity returns the verdict of CapacityScheduling's PreFilter: one list for all nodes, which is
// empty or names the limit that the pod exceeds.
func (c *cluster) capacity(q *question) answer {
	args := capacityArgs{}
	must(json.Unmarshal(q.Args, &args))
	turn := 0
	changed := func(pod *v1.Pod) *v1.Pod {
		pod = pod.DeepCopy()
		pod.Namespace = args.Namespaces[turn%len(args.Namespaces)]
		pod.Spec.Priority = args.Priorities[turn%len(args.Priorities)]
		turn++
		return pod
	}
	asked := changed(q.Pod)
	nominated := map[string][]*framework.PodInfo{}
	plugin := &capacityscheduling.CapacityScheduling{}
	h := capacityHandle{&handle{nominated: nominated}, c.infos}
	set(plugin, "fh", framework.Handle(h))
	set(plugin, "elasticQuotaInfos", capacityscheduling.NewElasticQuotaInfos())
	for _, quota := range args.Quotas {
		addElasticQuota(plugin, quota)
	}
	state := framework.NewCycleState()
	for _, pod := range c.Pods {
		pod = changed(pod)
		if node := pod.Spec.NodeName; node != "" {
			must(plugin.Reserve(ctx, state, pod, node).AsError())
			continue
		}
		info, err := framework.NewPodInfo(pod)
		must(err)
		node := pod.Status.NominatedNodeName
		nominated[node] = append(nominated[node], info)
	}
	_, status := plugin.PreFilter(ctx, state, asked)
	limits := []string{}
	switch message := status.Message(); {
	case status.IsSuccess():
	case strings.HasSuffix(message, "is more than Max"):
		limits = append(limits, "max")
	case strings.HasSuffix(message, "is more than min"):
		limits = append(limits, "min")
	default:
		log.Fatal(message)
	}
	return answer{Rejected: [][]string{limits}}
}

// set sets a field of a plugin that only the plugin's own package can name.
func set(plugin any, field string, value any) {
	place := reflect.ValueOf(plugin).Elem().FieldByName(field)
	place = reflect.NewAt(place.Type(), unsafe.Pointer(place.UnsafeAddr())).Elem()
	place.Set(reflect.ValueOf(value))
}
