package gguf

import "fmt"

// kind is the type of a metadata value. The constants are the numbers in the file.
type kind uint32

const (
	kindUint8 kind = iota
	kindInt8
	kindUint16
	kindInt16
	kindUint32
	kindInt32
	kindFloat32
	kindBool
	kindString
	kindArray
	kindUint64
	kindInt64
	kindFloat64
	numKinds
)

var kindNames = [numKinds]string{
	"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array", "uint64", "int64", "float64",
}

// kindBytes is the size of a value of each fixed-size kind, 0 for the other kinds.
var kindBytes = [numKinds]int{
	kindUint8: 1, kindInt8: 1, kindUint16: 2, kindInt16: 2, kindUint32: 4, kindInt32: 4, kindFloat32: 4,
	kindBool: 1, kindUint64: 8, kindInt64: 8, kindFloat64: 8,
}

func (k kind) String() string {
	if k >= numKinds {
		return fmt.Sprintf("kind %d", uint32(k))
	}
	return kindNames[k]
}

func (k kind) signed() bool {
	return k == kindInt8 || k == kindInt16 || k == kindInt32 || k == kindInt64
}

func (k kind) unsigned() bool {
	return k == kindUint8 || k == kindUint16 || k == kindUint32 || k == kindUint64
}

func (k kind) integer() bool { return k.signed() || k.unsigned() }

func (k kind) float() bool { return k == kindFloat32 || k == kindFloat64 }
