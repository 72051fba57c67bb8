package tiering

// Ledger is a number of bytes for each Purpose.
type Ledger [purposes]int64

// Total returns the sum.
func (l *Ledger) Total() (n int64) {
	for _, v := range l {
		n += v
	}
	return n
}

// ByName returns the nonzero purposes by name.
func (l *Ledger) ByName() map[string]int64 {
	named := map[string]int64{}
	for p, v := range l {
		if v != 0 {
			named[Purpose(p).String()] = v
		}
	}
	return named
}

// Purposes returns all purposes in the order in which reports list them.
func Purposes() []Purpose {
	all := make([]Purpose, purposes)
	for p := range all {
		all[p] = Purpose(p)
	}
	return all
}
