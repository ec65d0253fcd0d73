//go:build deep

package clients_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// wire is a TCP proxy that ends some connections in the middle of an answer, on the way between door and client.
type wire struct {
	listener net.Listener
	door     string
	passed   chan<- struct{} // has a word when bytes of an answer passed, or were cut
	cuts     atomic.Int64

	mu   sync.Mutex // guards dice and row
	dice *rand.Rand
	row  int // cuts one after the other
	all  sync.WaitGroup
}

func (w *wire) serve() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.all.Go(func() { w.pass(client) })
	}
}

// pass carries one connection. Of every two requests one loses its connection, after as many bytes of the answer as the dice say, and never
// two one after the other.
func (w *wire) pass(client net.Conn) {
	defer client.Close()
	door, err := net.Dial("tcp", w.door)
	if err != nil {
		return
	}
	defer door.Close()
	var left atomic.Int64 // bytes until the cut; below 0 there is none
	var asks atomic.Bool
	w.all.Go(func() {
		defer door.Close()
		piece := make([]byte, 64<<10)
		for {
			n, err := client.Read(piece)
			if n > 0 && !asks.Swap(true) {
				w.mu.Lock()
				left.Store(-1)
				if w.row++; w.row > 1 || w.dice.IntN(2) == 0 {
					w.row = 0
				} else {
					left.Store(int64(w.dice.IntN(900)))
				}
				w.mu.Unlock()
			}
			if _, werr := door.Write(piece[:n]); err != nil || werr != nil {
				return
			}
		}
	})
	piece := make([]byte, 64<<10)
	for {
		n, err := door.Read(piece)
		asks.Store(false)
		tell(w.passed)
		if rest := left.Load(); rest >= 0 && int64(n) > rest {
			_, _ = client.Write(piece[:rest])
			w.cuts.Add(1)
			return
		} else if rest >= 0 {
			left.Add(int64(-n))
		}
		if _, werr := client.Write(piece[:n]); err != nil || werr != nil {
			return
		}
	}
}

// TestCuts: the official openai client loses the connection in 200 places of its answers. It repeats by itself, and a loop above it
// repeats what it does not. Each question is answered, and none is asked twice behind the door.
func TestCuts(t *testing.T) {
	t.Parallel()
	clientHome(t, "openai")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, url, token := serve(t, "http://"+l.Addr().String())
	w := &wire{listener: l, door: strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/v1"), passed: s.passed, dice: rand.New(rand.NewPCG(1, 2))}
	go w.serve()
	defer func() { l.Close(); w.all.Wait() }()
	const questions = 560
	out, err := program(t, "openai", "cuts.mjs", "http://"+l.Addr().String()+"/v1", token, fmt.Sprint(questions)).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lost, doubled := 0, 0
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := map[string]int{}
	for _, words := range s.asked {
		asked[words]++
	}
	for n := range questions {
		if !strings.Contains(string(out), fmt.Sprintf("\n%d: One, two, %d\n", n, n)) && !strings.HasPrefix(string(out), fmt.Sprintf("%d: One, two, %d\n", n, n)) {
			lost++
		}
		if asked[fmt.Sprint("Count to ", n)]+asked[fmt.Sprint("Count at once to ", n)] > 1 {
			doubled++
			t.Logf("doubled: %d", n)
		}
	}
	t.Logf("%d cuts: %d answers lost, %d questions asked twice", w.cuts.Load(), lost, doubled)
	if lost > 0 || doubled > 0 || w.cuts.Load() < 200 {
		t.Errorf("%d cuts: %d answers lost, %d questions asked twice", w.cuts.Load(), lost, doubled)
	}
}
