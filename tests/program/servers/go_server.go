// SPDX-License-Identifier: GPL-2.0-only
// An HTTP server for tests: /sum?n=N hashes N kilobytes that it makes anew for each request, so that
// the collector of garbage has work. SIGTERM ends it once all requests have their answers.
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
)

const kilobyte = 1024

// data makes the bytes in pieces, by a goroutine for each.
func data(count int) []byte {
	pieces := make([][]byte, count)
	var group sync.WaitGroup
	for i := range pieces {
		group.Add(1)
		go func() {
			defer group.Done()
			piece := make([]byte, kilobyte)
			for j := range piece {
				piece[j] = byte(i + j)
			}
			pieces[i] = piece
		}()
	}
	group.Wait()
	var all []byte
	for _, piece := range pieces {
		all = append(all, piece...)
	}
	return all
}

func sum(answer http.ResponseWriter, request *http.Request) {
	count, err := strconv.Atoi(request.URL.Query().Get("n"))
	if err != nil || count < 0 || count > 1000 {
		http.Error(answer, "n is no number up to 1000", http.StatusBadRequest)
		return
	}
	fmt.Fprintf(answer, "%x", sha256.Sum256(data(count)))
}

func main() {
	http.HandleFunc("/sum", sum)
	server := &http.Server{Addr: ":80"}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	ended := make(chan error)
	go func() {
		<-asked
		ended <- server.Shutdown(context.Background())
	}()
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := <-ended; err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	fmt.Println("collections", memory.NumGC)
}
