package limits

import (
	"fmt"
	"testing"
)

func BenchmarkLimits(b *testing.B) {
	memory := NewMemory(SweepBytes)
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			var read, peak float64
			for b.Loop() {
				r, err := ReadBandwidth(memory, threads)
				if err != nil {
					b.Fatal(err)
				}
				p, _, err := Int8Peak(threads)
				if err != nil {
					b.Fatal(err)
				}
				read, peak = max(read, r), max(peak, p)
			}
			b.ReportMetric(read/1e9, "GB/s")
			b.ReportMetric(peak/1e9, "Gop/s")
		})
	}
}
