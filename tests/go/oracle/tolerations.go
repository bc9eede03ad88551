package main

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
)

// kube-apiserver takes no pod with Lt or Gt while the gate TaintTolerationComparisonOperators is off.
const comparisonOperators = true

type tolerationCase struct {
	Toleration v1.Toleration `json:"toleration"`
	// One letter per taint: y where it is tolerated.
	Taints string `json:"taints"`
}

type untoleratedCase struct {
	Taints      []v1.Taint      `json:"taints"`
	Tolerations []v1.Toleration `json:"tolerations"`
	First       *v1.Taint       `json:"first"`
}

var taints = []v1.Taint{
	{Key: "gpu", Value: "", Effect: v1.TaintEffectNoSchedule},
	{Key: "gpu", Value: "a100", Effect: v1.TaintEffectNoSchedule},
	{Key: "gpu", Value: "a100", Effect: v1.TaintEffectPreferNoSchedule},
	{Key: "gpu", Value: "a100", Effect: v1.TaintEffectNoExecute},
	{Key: "gpu", Value: "h100", Effect: v1.TaintEffectNoExecute},
	{Key: "GPU", Value: "a100", Effect: v1.TaintEffectNoSchedule},
	{Key: "sla", Value: "5", Effect: v1.TaintEffectNoSchedule},
	{Key: "sla", Value: "-5", Effect: v1.TaintEffectNoExecute},
	{Key: "sla", Value: "05", Effect: v1.TaintEffectNoSchedule},
	{Key: "sla", Value: "0", Effect: v1.TaintEffectNoSchedule},
	{Key: "sla", Value: "-0", Effect: v1.TaintEffectNoSchedule},
	{Key: "sla", Value: "+5", Effect: v1.TaintEffectNoSchedule},
	{Key: "sla", Value: "5.0", Effect: v1.TaintEffectNoSchedule},
	{Key: "sla", Value: "", Effect: v1.TaintEffectNoSchedule},
	{Key: "sla", Value: "9223372036854775807", Effect: v1.TaintEffectNoSchedule},
	{Key: "sla", Value: "9223372036854775808", Effect: v1.TaintEffectNoSchedule},
	{Key: "sla", Value: "-9223372036854775808", Effect: v1.TaintEffectNoExecute},
	{Key: "", Value: "", Effect: ""},
	{Key: "", Value: "", Effect: v1.TaintEffectNoSchedule},
	{Key: "gpu", Value: "a100", Effect: ""},
	{Key: "gpu", Value: "a100", Effect: "noschedule"},
	{Key: "node.kubernetes.io/unschedulable", Value: "", Effect: v1.TaintEffectNoSchedule},
}

var tolerationKinds = []v1.Toleration{
	{},
	{Operator: v1.TolerationOpExists},
	{Operator: v1.TolerationOpExists, Value: "ignored"},
	{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
	{Operator: v1.TolerationOpExists, Effect: "noschedule"},
	{Operator: v1.TolerationOpEqual},
	{Operator: v1.TolerationOpEqual, Value: "a100"},
	{Operator: v1.TolerationOpEqual, Value: "5"},
	{Value: "a100"},
	{Effect: v1.TaintEffectNoSchedule},
	{Key: "gpu"},
	{Key: "gpu", Value: "a100"},
	{Key: "gpu", Value: "A100"},
	{Key: "gpu", Operator: v1.TolerationOpExists},
	{Key: "gpu", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
	{Key: "gpu", Operator: v1.TolerationOpEqual, Value: "a100", Effect: v1.TaintEffectNoSchedule},
	{Key: "gpu", Operator: v1.TolerationOpEqual, Value: "a100", Effect: v1.TaintEffectPreferNoSchedule},
	{Key: "gpu", Operator: v1.TolerationOpEqual, Value: "a100"},
	{Key: "gpu", Operator: "exists"},
	{Key: "gpu", Operator: "equal", Value: "a100"},
	{Key: "gpu", Operator: "NotEqual", Value: "h100"},
	{Key: "sla", Operator: v1.TolerationOpLt, Value: "9"},
	{Key: "sla", Operator: v1.TolerationOpGt, Value: "1"},
	{Key: "sla", Operator: v1.TolerationOpGt, Value: "-9"},
	{Key: "sla", Operator: v1.TolerationOpGt, Value: "5"},
	{Key: "sla", Operator: v1.TolerationOpLt, Value: "5", Effect: v1.TaintEffectNoSchedule},
	{Key: "sla", Operator: v1.TolerationOpGt, Value: "05"},
	{Key: "sla", Operator: v1.TolerationOpGt, Value: "-0"},
	{Key: "sla", Operator: v1.TolerationOpLt, Value: "+9"},
	{Key: "sla", Operator: v1.TolerationOpLt},
	{Key: "sla", Operator: v1.TolerationOpLt, Value: "9223372036854775807"},
	{Key: "sla", Operator: v1.TolerationOpGt, Value: "-9223372036854775808"},
	{Key: "sla", Operator: v1.TolerationOpGt, Value: "-9223372036854775809"},
	{Operator: v1.TolerationOpGt, Value: "1"},
	{Key: "sla", Operator: "gt", Value: "1"},
	{Key: "sla", Operator: v1.TolerationOpEqual, Value: "5"},
	{Key: "node.kubernetes.io/unschedulable", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
	{Key: "node.kubernetes.io/unschedulable", Effect: v1.TaintEffectNoSchedule},
	{Key: "absent", Operator: v1.TolerationOpExists},
}

func tolerations() file {
	var tolerated []tolerationCase
	for _, toleration := range tolerationKinds {
		tolerated = append(tolerated, answerToleration(toleration))
	}
	var untolerated []untoleratedCase
	random := chance(3)
	for range 150 {
		node, pod := some(random, taints, 4), some(random, tolerationKinds, 4)
		untolerated = append(untolerated, answerUntolerated(node, pod))
	}
	return file{version("k8s.io/api"), []section{
		list("taints", taints), list("tolerated", tolerated), list("untolerated", untolerated),
	}}
}

func answerToleration(toleration v1.Toleration) tolerationCase {
	answer := tolerationCase{Toleration: toleration}
	for _, taint := range taints {
		answer.Taints += letter(toleration.ToleratesTaint(klog.Background(), &taint, comparisonOperators))
	}
	return answer
}

func answerUntolerated(node []v1.Taint, pod []v1.Toleration) untoleratedCase {
	answer := untoleratedCase{Taints: node, Tolerations: pod}
	first, found := corev1.FindMatchingUntoleratedTaint(
		klog.Background(), node, pod, forbidsScheduling, comparisonOperators,
	)
	if found {
		answer.First = &first
	}
	return answer
}

// forbidsScheduling is the filter of kube-scheduler's TaintToleration.
func forbidsScheduling(taint *v1.Taint) bool {
	return slices.Contains([]v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute}, taint.Effect)
}
