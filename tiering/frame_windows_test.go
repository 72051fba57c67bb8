package tiering

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

// stateOf returns whether the page at an address is committed or reserved.
func stateOf(t *testing.T, at *byte) uint32 {
	t.Helper()
	var info windows.MemoryBasicInformation
	require.NoError(t, windows.VirtualQuery(uintptr(unsafe.Pointer(at)), &info, unsafe.Sizeof(info)))
	return info.State
}

// TestRoomIsNotCommitted checks that the room of a frame is address space, before and after it was used.
func TestRoomIsNotCommitted(t *testing.T) {
	const used, room = 1 << 20, 64 << 20
	f, err := AllocRoom(New(0), Scratch, used, room)
	require.NoError(t, err)
	defer f.Free()
	require.EqualValues(t, windows.MEM_COMMIT, stateOf(t, &f.pages[used-1]))
	require.EqualValues(t, windows.MEM_RESERVE, stateOf(t, &f.pages[used]))
	require.NoError(t, f.Resize(room))
	f.Bytes()[room-1] = 1
	require.NoError(t, f.Resize(used))
	require.EqualValues(t, windows.MEM_RESERVE, stateOf(t, &f.pages[room-1]))
}
