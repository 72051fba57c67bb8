package tiering

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"1.5GiB": 1610612736, "800MB": 800_000_000, "2G": 2 << 30, "1024": 1024, " 3 kib ": 3072, "7b": 7,
		"50%": 500, "12.5%": 125, "1TiB": 1 << 40, "1e9": 1e9, "100 m": 100 << 20,
	} {
		got, err := ParseSize(text, 1000)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "GiB", "-1", "0", "0.5", "NaN", "inf", "1e30", "0x10", "1_000", "5%%", "1 2", "%", "10PiB", "1.5", "4", "1023", "2000.5"} {
		_, err := ParseSize(text, 1000)
		require.ErrorContains(t, err, "is not a valid size", text)
	}
	_, err := ParseSize("50%", 0)
	require.Error(t, err)
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 KiB", 512: "512 B", 1: "1 B", 3072: "3 KiB", 12 << 20: "12 MiB", 1000 << 20: "0.9766 GiB", 1610612736: "1.5 GiB",
	} {
		require.Equal(t, want, SizeText(n))
	}
	for _, n := range []int64{0, 1, 511, 512, 3073, 48<<20 + 73400, 48<<20 + 73401, 999<<20 + 999<<10, 1000<<20 - 1, 1<<30 + 1, 123456789012} {
		shown, err := ParseSize(AtLeastText(n), 0)
		if n > 0 {
			require.NoError(t, err)
		}
		require.GreaterOrEqual(t, shown, n)
		require.LessOrEqual(t, shown, n+max(1, n/1000)+511, AtLeastText(n))
	}
}
