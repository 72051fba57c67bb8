package serve

import (
	"fmt"
	"net"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// TestMeasuredIdleStreams checks that 200 clients whose streams wait take at most 10 MB, with their ends of the connections, which are
// in this process, too.
func TestMeasuredIdleStreams(t *testing.T) {
	testutil.Measured(t)
	const clients, most = 200, 10_000_000
	body := endless(t, "")
	s := newDemo(func(o *Options) { o.Parallel, o.Queue = 1, 4*clients })
	defer s.Close()
	web := httptest.NewUnstartedServer(nil)
	web.Config = NewHTTPServer(s)
	web.Start()
	defer web.Close()
	defer s.Close() // it ends the streams, for which web waits
	send := func() {
		conn, err := net.Dial("tcp", web.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		require.NoError(t, err)
	}
	held := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	send() // the others wait for it
	testutil.Eventually(t, "an answer that is generated", func() bool { return s.running() == 1 })
	before := held()
	for range clients {
		send()
	}
	testutil.Eventually(t, "streams that wait", func() bool { return s.queue.length() == clients })
	took := held() - before
	t.Logf("%d streams take %d bytes", clients, took)
	require.LessOrEqual(t, took, int64(most))
}
