package problem_test

import (
	"testing"

	"payonce/internal/problem"
)

func BenchmarkDocument(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		d := problem.New("https://pay.example", problem.IdempotencyKeyInProgress,
			"A request with this key is being executed now.", "/payments#req_1")
		if len(d.JSON()) == 0 {
			b.Fatal("empty")
		}
	}
}
