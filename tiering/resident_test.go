package tiering

import (
	"fmt"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestReadResident(t *testing.T) {
	for text, want := range map[string]Resident{
		"Name:\tx\nVmHWM:\t   44032 kB\nVmRSS:\t   40000 kB\nRssAnon:\t 1 kB\nVmPTE:\t  204 kB\n": {Now: 40000 << 10, Peak: 44032 << 10, PageTables: 204 << 10},
		"VmHWM:\t9223372036854775807 kB\nVmRSS:\tx kB\n":                                          {},
		"": {},
	} {
		root := fstest.MapFS{"proc/self/status": {Data: []byte(text)}}
		require.Equal(t, want, ReadResident(root), "%q", text)
	}
	require.Zero(t, ReadResident(fstest.MapFS{}))
	if runtime.GOOS == "linux" {
		now := ReadResident(SystemRoot())
		require.Greater(t, now.Now, int64(1<<20))
		require.GreaterOrEqual(t, now.Peak, now.Now)
	}
}

func TestResidentMeter(t *testing.T) {
	for line, want := range map[string]int64{"1052 322 280 5 0 76 0\n": 322, "7 8": 8, "12": 0, "1 x": 0, "": 0} {
		require.Equal(t, want, residentPages([]byte(line)), "%q", line)
	}
	for status, want := range map[string]int64{"VmRSS:\t 7 kB\nVmPTE:\t     204 kB\nVmSwap:\t 0 kB\n": 204 << 10, "VmPTE:": 0, "": 0} {
		require.Equal(t, want, tableBytes([]byte(status)), "%q", status)
	}
	m, err := NewResidentMeter()
	if runtime.GOOS != "linux" && runtime.GOOS != "android" {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	require.Greater(t, m.Read(), int64(1<<20))
	require.NoError(t, m.Close())
	require.Zero(t, m.Read(), "a closed meter")
}

// TestReadCode counts the mappings of the executable and of libraries, and no others.
func TestReadCode(t *testing.T) {
	mapping := func(permissions, path string, kb int) string {
		return fmt.Sprintf("00400000-0084b000 %s 00000000 fe:00 997 %s\nSize: 9 kB\nRss: %d kB\nPss: 5 kB\n", permissions, path, kb)
	}
	smaps := mapping("r-xp", "/bin/x", 1) + mapping("r--p", executable(), 2) + mapping("r--p", "/models/m.pack", 4) +
		mapping("rw-p", "", 8) + mapping("r--p", "/lib/libOpenCL.so.1", 16)
	require.Equal(t, int64(19<<10), ReadCode(fstest.MapFS{"proc/self/smaps": {Data: []byte(smaps)}}).Resident())
	require.Zero(t, ReadCode(fstest.MapFS{}).Resident())
	if runtime.GOOS == "linux" {
		require.Greater(t, ReadCode(SystemRoot()).Resident(), int64(1<<20))
		require.Less(t, ReadCode(SystemRoot()).Resident(), int64(100<<20))
	}
}

// TestReleaseCode gives back the executable's pages, and neither those of libraries nor what was changed in memory.
func TestReleaseCode(t *testing.T) {
	mapping := func(permissions, path string, anonymous int) string {
		return fmt.Sprintf("00400000-0084b000 %s 00000000 fe:00 997 %s\nRss: 8 kB\nAnonymous: %d kB\n", permissions, path, anonymous)
	}
	smaps := mapping("r-xp", executable(), 0) + mapping("r-xp", executable(), 4) + mapping("rw-p", executable(), 0) + mapping("r--p", "/lib/libOpenCL.so.1", 0)
	var changed, writable []bool
	for _, m := range ReadCode(fstest.MapFS{"proc/self/smaps": {Data: []byte(smaps)}}) {
		require.Equal(t, [2]uintptr{0x400000, 0x84b000}, [2]uintptr{m.from, m.to})
		require.Equal(t, int64(8<<10), m.resident)
		changed, writable = append(changed, m.changed), append(writable, m.writable)
	}
	require.Equal(t, []bool{false, true, false, false}, changed)
	require.Equal(t, []bool{false, false, true, false}, writable)
	if runtime.GOOS != "linux" {
		t.Skip("no mappings are known here")
	}
	const used = 4 << 10 // of this test, at least
	code := ReadCode(SystemRoot())
	code.Release()
	before, after := code.Resident(), ReadCode(SystemRoot()).Resident()
	require.Less(t, after, before)
	require.Greater(t, after, int64(used), "what runs comes back")
}
