// Command affinity_judge says which nodes kube-scheduler's own code allows a pod, and prefers for it.
//
// It reads one JSON object a line, {"pod": Pod, "nodes": [Node]}, and answers each with a line
// {"allowed": [bool], "scores": [int]}, in the order of the nodes.
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"log"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

type question struct {
	Pod   *v1.Pod   `json:"pod"`
	Nodes []v1.Node `json:"nodes"`
}

type answer struct {
	Allowed []bool  `json:"allowed"`
	Scores  []int64 `json:"scores"`
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	questions, answers := json.NewDecoder(os.Stdin), json.NewEncoder(out)
	for {
		var asked question
		if err := questions.Decode(&asked); err == io.EOF {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		if err := answers.Encode(judged(asked)); err != nil {
			log.Fatal(err)
		}
	}
}

func judged(asked question) answer {
	required := nodeaffinity.GetRequiredNodeAffinity(asked.Pod)
	preferred := preferences(asked.Pod)
	var found answer
	for i := range asked.Nodes {
		// An error means no, as in kube-scheduler's plugin NodeAffinity.
		allowed, err := required.Match(&asked.Nodes[i])
		found.Allowed = append(found.Allowed, allowed && err == nil)
		found.Scores = append(found.Scores, preferred.Score(&asked.Nodes[i]))
	}
	return found
}

func preferences(pod *v1.Pod) *nodeaffinity.PreferredSchedulingTerms {
	var terms []v1.PreferredSchedulingTerm
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		terms = affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	preferred, err := nodeaffinity.NewPreferredSchedulingTerms(terms)
	if err != nil {
		log.Fatal(err)
	}
	return preferred
}
