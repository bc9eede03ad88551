package main

import (
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/config"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology"
)

func topologyMatch(q *question, h framework.Handle) (framework.Plugin, error) {
	return noderesourcetopology.New(ctx, read(q, &config.NodeResourceTopologyMatchArgs{}), h)
}
