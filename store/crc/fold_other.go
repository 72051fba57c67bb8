//go:build noasm || !amd64

package crc

const folds = false

func fold(uint32, *byte, int) uint32 { panic("crc: this processor does not fold") }
