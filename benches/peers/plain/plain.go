// Package plain is a scheduler extender as usually written in Go: with encoding/json, the types of
// k8s.io, and a loop over nodes.
package plain

import (
	"encoding/json"
	"os"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

const (
	podLabel  = "high-comm"
	nodeLabel = "node.kubernetes.io/rdma-enabled"
	reason    = "Node does not support RDMA"
)

// Nodes maps names to nodes, for requests with names alone. It is filled from a file, where a real
// extender has an informer.
type Nodes map[string]*v1.Node

// ReadNodes reads a NodeList from a file.
func ReadNodes(path string) (Nodes, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list v1.NodeList
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, err
	}
	nodes := make(Nodes, len(list.Items))
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	return nodes, nil
}

// Filter keeps only nodes with RDMA for a pod that asks for RDMA, and all nodes for other pods.
func (nodes Nodes) Filter(args *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
	_, wants := args.Pod.Labels[podLabel]
	failed := extenderv1.FailedNodesMap{}
	result := &extenderv1.ExtenderFilterResult{FailedAndUnresolvableNodes: failed}
	if args.NodeNames != nil {
		kept := make([]string, 0, len(*args.NodeNames))
		for _, name := range *args.NodeNames {
			if wants && !hasRDMA(nodes[name]) {
				failed[name] = reason
			} else {
				kept = append(kept, name)
			}
		}
		result.NodeNames = &kept
		return result
	}
	kept := &v1.NodeList{Items: make([]v1.Node, 0, len(args.Nodes.Items))}
	for i := range args.Nodes.Items {
		node := &args.Nodes.Items[i]
		if wants && !hasRDMA(node) {
			failed[node.Name] = reason
		} else {
			kept.Items = append(kept.Items, *node)
		}
	}
	result.Nodes = kept
	return result
}

// Prioritize gives ten points to nodes with RDMA, for a pod that asks for RDMA, and 0 otherwise.
func (nodes Nodes) Prioritize(args *extenderv1.ExtenderArgs) extenderv1.HostPriorityList {
	_, wants := args.Pod.Labels[podLabel]
	var scores extenderv1.HostPriorityList
	if args.NodeNames != nil {
		for _, name := range *args.NodeNames {
			scores = append(scores, score(name, wants && hasRDMA(nodes[name])))
		}
		return scores
	}
	for i := range args.Nodes.Items {
		node := &args.Nodes.Items[i]
		scores = append(scores, score(node.Name, wants && hasRDMA(node)))
	}
	return scores
}

// Answer decodes a request body, calls decide, and returns the JSON of the result.
func Answer[Result any](body []byte, decide func(*extenderv1.ExtenderArgs) Result) ([]byte, error) {
	var args extenderv1.ExtenderArgs
	if err := json.Unmarshal(body, &args); err != nil {
		return nil, err
	}
	return json.Marshal(decide(&args))
}

func hasRDMA(node *v1.Node) bool {
	return node != nil && node.Labels[nodeLabel] == "true"
}

func score(host string, good bool) extenderv1.HostPriority {
	if good {
		return extenderv1.HostPriority{Host: host, Score: extenderv1.MaxExtenderPriority}
	}
	return extenderv1.HostPriority{Host: host}
}
