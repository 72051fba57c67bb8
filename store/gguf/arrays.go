package gguf

// Strings returns an array of strings.
func (m *Metadata) Strings(key string) (values StringList, ok bool, err error) {
	e := m.findRead(key)
	if e == nil {
		return StringList{}, false, nil
	}
	if e.kind != kindArray || e.elem != kindString {
		return StringList{}, false, m.wrongKind(e, "an array of strings")
	}
	return *e.ref.(*StringList), true, nil
}

// Len returns the length of the array that key holds. ok is false if key is absent or does
// not hold an array.
func (m *Metadata) Len(key string) (n int, ok bool) {
	e := m.find(key)
	if e == nil || e.kind != kindArray {
		return 0, false
	}
	switch v := e.ref.(type) {
	case skippedArray:
		return int(v), true
	case *StringList:
		return v.Len(), true
	}
	return len(e.ref.([]byte)) / kindBytes[e.elem], true
}

// findRead returns the entry of an array, or nil if the key is absent or its elements were skipped.
func (m *Metadata) findRead(key string) *entry {
	e := m.find(key)
	if e != nil {
		if _, skipped := e.ref.(skippedArray); skipped {
			return nil
		}
	}
	return e
}

// Ints returns an array of integers of any width.
func (m *Metadata) Ints(key string) (values []int64, ok bool, err error) {
	raw, e, err := m.rawArray(key, kind.integer, "an array of integers")
	if e == nil || err != nil {
		return nil, false, err
	}
	width := kindBytes[e.elem]
	values = make([]int64, len(raw)/width)
	for i := range values {
		v, fits := asInt(e.elem, loadBits(raw[i*width:(i+1)*width]))
		if !fits {
			return nil, false, m.Errorf(key, "element %d is too large", i)
		}
		values[i] = v
	}
	return values, true, nil
}

// Floats returns an array of floating-point numbers. It rounds float64 to float32.
func (m *Metadata) Floats(key string) (values []float32, ok bool, err error) {
	raw, e, err := m.rawArray(key, kind.float, "an array of floats")
	if e == nil || err != nil {
		return nil, false, err
	}
	width := kindBytes[e.elem]
	values = make([]float32, len(raw)/width)
	for i := range values {
		values[i] = float32(asFloat(e.elem, loadBits(raw[i*width:(i+1)*width])))
	}
	return values, true, nil
}

// Bools returns an array of booleans.
func (m *Metadata) Bools(key string) (values []bool, ok bool, err error) {
	isBool := func(k kind) bool { return k == kindBool }
	raw, e, err := m.rawArray(key, isBool, "an array of bools")
	if e == nil || err != nil {
		return nil, false, err
	}
	values = make([]bool, len(raw))
	for i, b := range raw {
		if b > 1 {
			return nil, false, m.Errorf(key, "element %d: %d is not a bool", i, b)
		}
		values[i] = b == 1
	}
	return values, true, nil
}

// Bytes returns an array of uint8 or int8 as raw bytes. The Metadata owns the memory:
// callers must not change it.
func (m *Metadata) Bytes(key string) (value []byte, ok bool, err error) {
	isByte := func(k kind) bool { return k == kindUint8 || k == kindInt8 }
	raw, e, err := m.rawArray(key, isByte, "an array of bytes")
	return raw, e != nil && err == nil, err
}

// rawArray returns the raw bytes of an array whose element kind the predicate accepts. The
// entry is nil if key is absent.
func (m *Metadata) rawArray(key string, accepts func(kind) bool, want string) ([]byte, *entry, error) {
	e := m.findRead(key)
	if e == nil {
		return nil, nil, nil
	}
	if e.kind != kindArray || !accepts(e.elem) {
		return nil, nil, m.wrongKind(e, want)
	}
	return e.ref.([]byte), e, nil
}
