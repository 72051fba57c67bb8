//go:build !noasm

package tiled

//go:noescape
func joinBytesNEON(a *joinArgs)

//go:noescape
func joinThreeNEON(a *joinArgs)

//go:noescape
func joinTwoNEON(a *joinArgs)

func (neon) join(kind joinKind, a joinArgs) {
	switch kind {
	case joinBytes:
		joinBytesNEON(&a)
	case joinThree:
		joinThreeNEON(&a)
	case joinTwo:
		joinTwoNEON(&a)
	}
}
