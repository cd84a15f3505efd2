package cardnumber

import "testing"

func BenchmarkIn(b *testing.B) {
	for name, s := range map[string]string{
		"customer":    "cus-1",
		"key":         "0193e7a0-5f4e-7c1b-8a53-2f1d0e6b9c4d",
		"description": "Order 4711 of 2026-11-20, two adults, room with a view, 12 nights at 120.00",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if In(s) {
					b.Fatal("a find")
				}
			}
		})
	}
}
