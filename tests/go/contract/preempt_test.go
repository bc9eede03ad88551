package contract

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

func newRand() *rand.Rand { return rand.New(rand.NewPCG(seed, 2)) }

// candidates are the victims that kube-scheduler offers to evict, by node.
type candidates map[string]*extenderv1.MetaVictims

// body writes them as kube-scheduler does: UIDs alone with a node cache, else whole pods.
func (c candidates) body(pod string, meta bool) []byte {
	parts := []string{}
	for name, victims := range c {
		pods := []string{}
		for _, v := range victims.Pods {
			if meta {
				pods = append(pods, fmt.Sprintf(`{"UID":%s}`, quote(v.UID)))
			} else {
				pods = append(pods, fmt.Sprintf(`{"metadata":{"name":"v","uid":%s},"spec":{"priority":1}}`, quote(v.UID)))
			}
		}
		parts = append(parts, fmt.Sprintf(`%s:{"Pods":[%s],"NumPDBViolations":%d}`,
			quote(name), strings.Join(pods, ","), victims.NumPDBViolations))
	}
	offered := "{" + strings.Join(parts, ",") + "}"
	if meta {
		return []byte(fmt.Sprintf(`{"Pod":%s,"NodeNameToVictims":null,"NodeNameToMetaVictims":%s}`, pod, offered))
	}
	return []byte(fmt.Sprintf(`{"Pod":%s,"NodeNameToVictims":%s,"NodeNameToMetaVictims":null}`, pod, offered))
}

func checkPreempt(t *testing.T, pod string, nodes []node, offered candidates, meta bool) {
	t.Helper()
	decoded := request{pod: pod}.decodedPod(t)
	want := candidates{}
	for _, n := range nodes {
		if victims := offered[n.decoded.Name]; victims != nil && reason(decoded, &n.decoded) == "" {
			want[n.decoded.Name] = victims
		}
	}
	var result extenderv1.ExtenderPreemptionResult
	call(t, "preempt", offered.body(pod, meta), &result)
	if result.NodeNameToMetaVictims == nil {
		t.Fatal("NodeNameToMetaVictims is null")
	}
	if !reflect.DeepEqual(candidates(result.NodeNameToMetaVictims), want) {
		t.Errorf("got %d candidates, want %d of %d", len(result.NodeNameToMetaVictims), len(want), len(offered))
	}
}

func TestPreemptKeepsCandidatesThatFilterLetsPassWithAllTheirVictims(t *testing.T) {
	nodes := generate(t, seed, generatedNodes)
	r := newRand()
	offered := candidates{}
	for _, n := range nodes[:300] {
		victims := &extenderv1.MetaVictims{NumPDBViolations: r.Int64N(3)}
		for i := range 1 + r.IntN(3) {
			victims.Pods = append(victims.Pods, &extenderv1.MetaPod{UID: fmt.Sprintf("%s<%d>", n.decoded.Name, i)})
		}
		offered[n.decoded.Name] = victims
	}
	for name, pod := range generatedPods {
		for _, meta := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/meta=%v", name, meta), func(t *testing.T) {
				checkPreempt(t, pod, nodes, offered, meta)
			})
		}
	}
}

func TestPreemptDropsCandidatesThatNoOneKnows(t *testing.T) {
	offered := candidates{"a-node-of-yesterday": {Pods: []*extenderv1.MetaPod{{UID: "u"}}}}
	for _, meta := range []bool{false, true} {
		checkPreempt(t, generatedPods["high-comm"], nil, offered, meta)
	}
}

func TestEveryRecordedPreemptRequestKeepsWhatFilterLetsPass(t *testing.T) {
	nodes := recorded(t, "full", "filter").nodes
	for _, mode := range []string{"full", "names"} {
		for variant, change := range podVariants {
			t.Run(mode+"/"+variant, func(t *testing.T) {
				var args extenderv1.ExtenderPreemptionArgs
				body := []byte(change(string(readWire(t, mode, "preempt"))))
				if err := json.Unmarshal(body, &args); err != nil {
					t.Fatal(err)
				}
				offered := candidates(args.NodeNameToMetaVictims)
				if mode == "full" {
					offered = metaOf(args.NodeNameToVictims)
				}
				want := candidates{}
				for _, n := range nodes {
					if victims := offered[n.decoded.Name]; victims != nil && reason(args.Pod, &n.decoded) == "" {
						want[n.decoded.Name] = victims
					}
				}
				var result extenderv1.ExtenderPreemptionResult
				call(t, "preempt", body, &result)
				if got := candidates(result.NodeNameToMetaVictims); !reflect.DeepEqual(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		}
	}
}

func metaOf(victims map[string]*extenderv1.Victims) candidates {
	meta := candidates{}
	for name, v := range victims {
		m := &extenderv1.MetaVictims{NumPDBViolations: v.NumPDBViolations}
		for _, pod := range v.Pods {
			m.Pods = append(m.Pods, &extenderv1.MetaPod{UID: string(pod.UID)})
		}
		meta[name] = m
	}
	return meta
}
