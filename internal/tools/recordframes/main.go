// Recordframes stands between clients and a server, and keeps a request of each kind that a client sends: what the fuzz
// targets of host/server begin with (host/server/testdata/frames.txt).
//
//	rsmhost serve --listen 127.0.0.1:9092 --advertise 127.0.0.1:9093 ...
//	recordframes -listen 127.0.0.1:9093 -to 127.0.0.1:9092 > host/server/testdata/frames.txt
//
// A line is the api key, the version, the client's id with its digits left out, and the request with its length, in hex.
// The first of each kind is kept, where it is no larger than -max bytes. It ends with SIGINT.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9093", "where clients connect")
	to := flag.String("to", "127.0.0.1:9092", "the server")
	largest := flag.Int("max", 1024, "bytes of a request that is kept")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := recorder{max: *largest, kept: map[kind][]byte{}}
	if err := r.serve(ctx, *listen, *to); err != nil {
		fmt.Fprintln(os.Stderr, "recordframes:", err)
		os.Exit(1)
	}
	r.write(os.Stdout)
}

// kind is what one request is kept of.
type kind struct {
	key, version int16
	client       string
}

type recorder struct {
	max int

	mu   sync.Mutex // guards kept
	kept map[kind][]byte
}

// serve takes connections until ctx ends.
func (r *recorder) serve(ctx context.Context, listen, to string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		client, err := l.Accept()
		if err != nil {
			return nil // ctx ended
		}
		wg.Go(func() { // ends with the client, with the server, or with ctx
			defer client.Close()
			server, err := net.Dial("tcp", to)
			if err != nil {
				fmt.Fprintln(os.Stderr, "recordframes:", err)
				return
			}
			defer server.Close()
			defer context.AfterFunc(ctx, func() { client.Close(); server.Close() })()
			wg.Go(func() { // ends with either
				io.Copy(client, server)
				client.Close()
			})
			r.forward(server, client)
		})
	}
}

// forward passes requests on until one of the two ends, and keeps those that are new.
func (r *recorder) forward(server io.Writer, client io.Reader) {
	for in := bufio.NewReader(client); ; {
		frame := make([]byte, 4)
		if _, err := io.ReadFull(in, frame); err != nil {
			return
		}
		frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
		if _, err := io.ReadFull(in, frame[4:]); err != nil {
			return
		}
		r.keep(frame)
		if _, err := server.Write(frame); err != nil {
			return
		}
	}
}

func (r *recorder) keep(frame []byte) {
	if len(frame) < 14 || len(frame) > r.max {
		return
	}
	k := kind{key: int16(binary.BigEndian.Uint16(frame[4:])), version: int16(binary.BigEndian.Uint16(frame[6:]))}
	if n := int16(binary.BigEndian.Uint16(frame[12:])); n > 0 && 14+int(n) <= len(frame) {
		k.client, _, _ = strings.Cut(strings.Map(word, string(frame[14:14+n])), "@") // behind which some name the machine
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept[k] == nil {
		r.kept[k] = frame
	}
}

// word leaves out what numbers clients, and what would not stand in a column.
func word(c rune) rune {
	if c <= ' ' || c > '~' || '0' <= c && c <= '9' {
		return -1
	}
	return c
}

// write writes what was kept, by kind.
func (r *recorder) write(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kinds := make([]kind, 0, len(r.kept))
	for k := range r.kept {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.version, b.version), cmp.Compare(a.client, b.client))
	})
	for _, k := range kinds {
		fmt.Fprintf(w, "%d %d %s %x\n", k.key, k.version, cmp.Or(k.client, "-"), r.kept[k])
	}
}
