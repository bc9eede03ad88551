package main

import (
	"context"

	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/config"
	"sigs.k8s.io/scheduler-plugins/pkg/sysched"
)

func sySched(q *question, h framework.Handle) (framework.Plugin, error) {
	endLast()
	informing, end := context.WithCancel(ctx)
	endLast = end
	return sysched.New(informing, read(q, &config.SySchedArgs{}), h)
}
