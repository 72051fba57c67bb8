package tiering

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sizeUnits lists the units of sizes. K, M, G and T alone mean the binary units.
var sizeUnits = []struct {
	name  string
	bytes float64
}{
	{"kib", 1 << 10},
	{"mib", 1 << 20},
	{"gib", 1 << 30},
	{"tib", 1 << 40},
	{"kb", 1e3},
	{"mb", 1e6},
	{"gb", 1e9},
	{"tb", 1e12},
	{"k", 1 << 10},
	{"m", 1 << 20},
	{"g", 1 << 30},
	{"t", 1 << 40},
	{"b", 1},
}

// leastBytes is the least number that ParseSize takes without a unit.
const leastBytes = 1024

// ParseSize parses an amount of memory: "1.5GiB", "800MB", "2G", a whole number of bytes,
// or "50%" of the available memory. A number of bytes below 1024 needs the unit "B": the user
// has forgotten one.
func ParseSize(text string, available int64) (int64, error) {
	s := strings.ToLower(strings.TrimSpace(text))
	unit, named := 1.0, false
	if number, ok := strings.CutSuffix(s, "%"); ok {
		s, unit, named = number, float64(available)/100, true
	} else {
		for _, u := range sizeUnits {
			if number, ok := strings.CutSuffix(s, u.name); ok {
				s, unit, named = number, u.bytes, true
				break
			}
		}
	}
	x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	// The comparisons are written so that NaN fails them.
	if n := x * unit; err == nil && n >= 1 && n < math.MaxInt64 && !strings.ContainsAny(s, "xpin_") && (named || n >= leastBytes && n == math.Trunc(n)) {
		return int64(n), nil
	}
	return 0, fmt.Errorf("%q is not a valid size: use for example 1.5GiB, 800MB or 50%%", text)
}

// SizeText formats a size with four significant digits, for messages of the library. The command uses cli.FormatBytes,
// whose numbers line up in tables.
func SizeText(n int64) string { return sizeText(float64(n)) }

// AtLeastText is SizeText for an amount that is needed: ParseSize of the text returns no less.
func AtLeastText(n int64) string {
	x := float64(n)
	for range maxSizeSteps {
		if shown, err := ParseSize(sizeText(x), 0); err == nil && shown >= n {
			break
		}
		x += max(1, x/20000) // less than half of the fourth digit
	}
	return sizeText(x)
}

// maxSizeSteps is more than the fourth digit of a size takes to change.
const maxSizeSteps = 64

func sizeText(n float64) string {
	if n > 0 && n < sizeUnits[0].bytes {
		return fmt.Sprintf("%.0f B", math.Ceil(n))
	}
	unit := 0
	for unit < 2 && n >= 1000*sizeUnits[unit].bytes {
		unit++
	}
	name := sizeUnits[unit].name
	return fmt.Sprintf("%.4g %siB", n/sizeUnits[unit].bytes, strings.ToUpper(name[:1]))
}
