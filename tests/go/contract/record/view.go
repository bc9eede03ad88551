package main

import (
	v1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubectl/pkg/util/qos"
)

// argsView holds of a decoded request what kubextend shows of it.
type argsView struct {
	Pod       *podView   `json:"pod"`
	Nodes     []nodeView `json:"nodes"`
	NodeNames []string   `json:"nodeNames"`
}

type podView struct {
	Name          string            `json:"name"`
	Namespace     string            `json:"namespace"`
	UID           string            `json:"uid"`
	Labels        map[string]string `json:"labels"`
	Annotations   map[string]string `json:"annotations"`
	SchedulerName string            `json:"schedulerName"`
	NodeName      string            `json:"nodeName"`
	Priority      *int32            `json:"priority"`
	NodeSelector  map[string]string `json:"nodeSelector"`
	// Key, operator, value, effect.
	Tolerations    [][4]string             `json:"tolerations"`
	RequiredTerms  []termView              `json:"requiredTerms"`
	Containers     []containerView         `json:"containers"`
	InitContainers []containerView         `json:"initContainers"`
	Overhead       map[string]quantityView `json:"overhead"`
	// By Kubernetes' own rule, with kube-scheduler's options.
	Requests      map[string]quantityView `json:"requests"`
	Gates         []string                `json:"gates"`
	Phase         string                  `json:"phase"`
	QOSClass      string                  `json:"qosClass"`
	NominatedNode string                  `json:"nominatedNode"`
	// Which of the three times are set: created, deleted, started.
	Times [3]bool `json:"times"`
}

type containerView struct {
	Name     string                  `json:"name"`
	Requests map[string]quantityView `json:"requests"`
	Limits   map[string]quantityView `json:"limits"`
	Sidecar  bool                    `json:"sidecar"`
}

type termView struct {
	Expressions []requirementView `json:"expressions"`
	Fields      []requirementView `json:"fields"`
}

type requirementView struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

type nodeView struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	// Key, value, effect.
	Taints        [][3]string             `json:"taints"`
	Unschedulable bool                    `json:"unschedulable"`
	Allocatable   map[string]quantityView `json:"allocatable"`
}

type quantityView struct {
	Value      int64 `json:"value"`
	MilliValue int64 `json:"milliValue"`
}

func viewArgs(args *extenderv1.ExtenderArgs) any {
	view := argsView{Pod: viewPod(args.Pod)}
	if args.Nodes != nil {
		view.Nodes = []nodeView{}
		for _, node := range args.Nodes.Items {
			view.Nodes = append(view.Nodes, viewNode(&node))
		}
	}
	if args.NodeNames != nil {
		view.NodeNames = present(*args.NodeNames)
	}
	return view
}

func viewPod(pod *v1.Pod) *podView {
	if pod == nil {
		return nil
	}
	view := &podView{
		Name:          pod.Name,
		Namespace:     pod.Namespace,
		UID:           string(pod.UID),
		Labels:        presentMap(pod.Labels),
		Annotations:   presentMap(pod.Annotations),
		SchedulerName: pod.Spec.SchedulerName,
		NodeName:      pod.Spec.NodeName,
		Priority:      pod.Spec.Priority,
		NodeSelector:  presentMap(pod.Spec.NodeSelector),
		Tolerations:   [][4]string{},

		Containers:     viewContainers(pod.Spec.Containers),
		InitContainers: viewContainers(pod.Spec.InitContainers),
		Overhead:       viewAmounts(pod.Spec.Overhead),
		Requests: viewAmounts(podresource.PodRequests(pod, podresource.PodResourcesOptions{
			UseStatusResources: true,
			InPlacePodLevelResourcesVerticalScalingEnabled: true,
		})),
		Gates:         []string{},
		Phase:         string(pod.Status.Phase),
		QOSClass:      string(qos.GetPodQOS(pod)),
		NominatedNode: pod.Status.NominatedNodeName,
		Times: [3]bool{
			!pod.CreationTimestamp.IsZero(), pod.DeletionTimestamp != nil, pod.Status.StartTime != nil,
		},
	}
	for _, gate := range pod.Spec.SchedulingGates {
		view.Gates = append(view.Gates, gate.Name)
	}
	for _, t := range pod.Spec.Tolerations {
		view.Tolerations = append(view.Tolerations,
			[4]string{t.Key, string(t.Operator), t.Value, string(t.Effect)})
	}
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		if required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			view.RequiredTerms = []termView{}
			for _, term := range required.NodeSelectorTerms {
				view.RequiredTerms = append(view.RequiredTerms, termView{
					Expressions: viewRequirements(term.MatchExpressions),
					Fields:      viewRequirements(term.MatchFields),
				})
			}
		}
	}
	return view
}

func viewRequirements(requirements []v1.NodeSelectorRequirement) []requirementView {
	views := []requirementView{}
	for _, r := range requirements {
		views = append(views, requirementView{r.Key, string(r.Operator), present(r.Values)})
	}
	return views
}

func viewNode(node *v1.Node) nodeView {
	view := nodeView{
		Name:          node.Name,
		Labels:        presentMap(node.Labels),
		Taints:        [][3]string{},
		Unschedulable: node.Spec.Unschedulable,
		Allocatable:   viewAmounts(node.Status.Allocatable),
	}
	for _, t := range node.Spec.Taints {
		view.Taints = append(view.Taints, [3]string{t.Key, t.Value, string(t.Effect)})
	}
	return view
}

func viewContainers(containers []v1.Container) []containerView {
	views := []containerView{}
	for _, c := range containers {
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
		views = append(views, containerView{
			c.Name, viewAmounts(c.Resources.Requests), viewAmounts(c.Resources.Limits), sidecar,
		})
	}
	return views
}

func viewAmounts(amounts v1.ResourceList) map[string]quantityView {
	view := map[string]quantityView{}
	for name, quantity := range amounts {
		view[string(name)] = quantityView{quantity.Value(), quantity.MilliValue()}
	}
	return view
}

// An absent map and an empty one are the same to whoever looks something up.
func presentMap(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func present(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
