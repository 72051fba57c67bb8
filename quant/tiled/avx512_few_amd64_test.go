//go:build !noasm

package tiled

import (
	"slices"

	"github.com/llmrun/llmrun/quant"
)

// nearSmall and farSmall are the avx512 path with the kernels of few tokens of AMD's and of other
// processors. Tests run both on any machine.
type (
	nearSmall struct{ avx512 }
	farSmall  struct{ avx512 }
)

func (nearSmall) mulSmall(t quant.Type, a *smallArgs) bool { return near512.mul(t, a) }

func (farSmall) mulSmall(t quant.Type, a *smallArgs) bool { return far512.mul(t, a) }

func (nearSmall) highGEMV(t quant.Type, high Plane) func(*smallArgs) {
	return near512.high[highKind{t, high}]
}

func (farSmall) highGEMV(t quant.Type, high Plane) func(*smallArgs) {
	return far512.high[highKind{t, high}]
}

func init() {
	if slices.Contains(paths(), kernels(avx512{})) {
		morePaths = append(morePaths, nearSmall{}, farSmall{})
	}
}
