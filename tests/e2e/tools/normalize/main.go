// Prints what Kubernetes' own DefaultNormalizeScore makes of generated scores, as JSON.
//
//	cd tests/e2e/tools/1.37 && go run ../normalize/main.go > ../../../data/oracle/normalize_scores.jsonl
package main

import (
	"encoding/json"
	"log"
	"math/rand"
	"os"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
)

type oneCase struct {
	Maximum    int64   `json:"maximum"`
	Reverse    bool    `json:"reverse"`
	Scores     []int64 `json:"scores"`
	Normalized []int64 `json:"normalized"`
}

func main() {
	random := rand.New(rand.NewSource(1))
	cases := []oneCase{}
	for _, scores := range edges() {
		cases = append(cases, both(100, scores)...)
	}
	for range 500 {
		maximum := []int64{100, 100, 100, 10, 1}[random.Intn(5)]
		cases = append(cases, both(maximum, someScores(random))...)
	}
	encoder := json.NewEncoder(os.Stdout)
	for _, one := range cases {
		if err := encoder.Encode(one); err != nil {
			log.Fatal(err)
		}
	}
}

func both(maximum int64, scores []int64) []oneCase {
	return []oneCase{answered(maximum, false, scores), answered(maximum, true, scores)}
}

func answered(maximum int64, reverse bool, scores []int64) oneCase {
	list := make(fwk.NodeScoreList, len(scores))
	for i, score := range scores {
		list[i].Score = score
	}
	if status := helper.DefaultNormalizeScore(maximum, reverse, list); !status.IsSuccess() {
		log.Fatal(status)
	}
	normalized := make([]int64, len(list))
	for i, node := range list {
		normalized[i] = node.Score
	}
	return oneCase{maximum, reverse, scores, normalized}
}

func edges() [][]int64 {
	return [][]int64{
		{}, {0}, {1}, {100}, {101}, {0, 0, 0}, {7, 7, 7}, {0, 1}, {1, 2, 3}, {3, 1, 2},
		{99, 100, 101}, {1 << 40, 1, 0}, {1 << 53, 1 << 52, 3}, {-1, 5}, {-5, -7}, {-5, 0},
	}
}

func someScores(random *rand.Rand) []int64 {
	limit := []int64{2, 10, 101, 1000, 1 << 32, 1 << 50}[random.Intn(6)]
	scores := make([]int64, random.Intn(12))
	for i := range scores {
		scores[i] = random.Int63n(limit)
	}
	return scores
}
