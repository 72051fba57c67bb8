package cli

import "unicode"

// Characters that belong together are a cluster: a letter with its accents, a syllable, an emoji with its variants, a flag.
// Someone who edits a line sees them as one.

const (
	joiner       = '\u200d' // zero width: the emoji on both sides are one
	emojiVariant = '\ufe0f' // the character before it is shown as an emoji
)

// joins reports whether the character i of a line belongs to the cluster of the one before it.
func joins(line []rune, i int) bool {
	r := line[i]
	if i == 0 || r < 0x300 {
		return false
	}
	before := line[i-1]
	switch {
	case unicode.IsControl(before):
		return false
	case before == joiner || unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc, unicode.Cf):
		return true
	case 0x1f3fb <= r && r <= 0x1f3ff: // a colour of skin
		return before >= 0x2600
	case 0x1160 <= r && r <= 0x11ff || 0xd7b0 <= r && r <= 0xd7ff: // vowels and final consonants of Korean
		return 0x1100 <= before && before <= 0x11ff || 0xac00 <= before && before <= 0xd7ff
	case isFlagLetter(r): // two are a flag
		first := i
		for first > 0 && isFlagLetter(line[first-1]) {
			first--
		}
		return (i-first)%2 == 1
	}
	return false
}

func isFlagLetter(r rune) bool { return 0x1f1e6 <= r && r <= 0x1f1ff }

// clusterEnd returns where the cluster ends that begins at i, or behind its beginning.
func clusterEnd(line []rune, i int) int {
	for i++; i < len(line) && joins(line, i); i++ {
	}
	return min(i, len(line))
}

// clusterStart returns where the cluster begins that has the character before i.
func clusterStart(line []rune, i int) int {
	for i--; i > 0 && joins(line, i); i-- {
	}
	return max(i, 0)
}

// mostCells returns the most columns that a terminal may take for a cluster: some draw an emoji of several characters as
// one, others each beside the other.
func mostCells(cluster []rune) (n int) {
	last := 0 // of the character that others join
	for i, r := range cluster {
		if cells := max(cellsOf(r), 1-i); cells > 0 { // see visible for the first one
			n, last = n+cells, cells
		} else if r == emojiVariant && last == 1 {
			n, last = n+1, 2
		}
	}
	return n
}
