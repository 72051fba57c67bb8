//go:build !noasm

package tiled

//go:noescape
func joinBytesAVX2(a *joinArgs)

//go:noescape
func joinThreeAVX2(a *joinArgs)

//go:noescape
func joinTwoAVX2(a *joinArgs)

//go:noescape
func joinBytesAVX512(a *joinArgs)

//go:noescape
func joinThreeAVX512(a *joinArgs)

//go:noescape
func joinTwoAVX512(a *joinArgs)

func (avx2) join(kind joinKind, a joinArgs) {
	switch kind {
	case joinBytes:
		joinBytesAVX2(&a)
	case joinThree:
		joinThreeAVX2(&a)
	case joinTwo:
		joinTwoAVX2(&a)
	}
}

func (avx512) join(kind joinKind, a joinArgs) {
	switch kind {
	case joinBytes:
		joinBytesAVX512(&a)
	case joinThree:
		joinThreeAVX512(&a)
	case joinTwo:
		joinTwoAVX512(&a)
	}
}
