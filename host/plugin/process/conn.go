package process

import (
	"bufio"
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rsmhost/rsmhost/abi/abipb"
)

const (
	// streamWindow is how far a plugin may run ahead of a stream's reader. Measured: 16 MiB were no faster.
	streamWindow = 4 << 20
	// connWindow only bounds what is in the socket: gRPC gives it back as bytes arrive, read or not.
	connWindow = 16 << 20
	// maxMessage is what gRPC takes at all. A frame of data is held to abipb.MaxFrame.
	maxMessage = 4 << 20
)

// dial makes a connection to the plugin's server. It connects when it is first used, and never by itself.
func dial(network, address string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	var d net.Dialer
	options := []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return d.DialContext(ctx, network, address) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the socket is private, and TLS costs half the throughput
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(abipb.Codec{}), grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithDisableRetry(), // who retries is the host's business
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
	}
	return grpc.NewClient("passthrough:///plugin", append(options, more...)...)
}

// readStdio takes what a plugin under go-plugin's own server prints: that server catches the output of its process and
// hands it out by this service, and blocks the plugin when nobody asks. Other plugins do not have the service.
func (p *Plugin) readStdio() {
	desc := &grpc.StreamDesc{StreamName: "StreamStdio", ServerStreams: true}
	st, err := p.control.NewStream(context.Background(), desc, "/plugin.GRPCStdio/StreamStdio") // ends with the connection
	if err != nil || st.SendMsg(&emptypb.Empty{}) != nil || st.CloseSend() != nil {
		return
	}
	p.child.out.drain(bufio.NewReaderSize(&stdioReader{rpc: st}, maxLine))
}

// stdioReader is that service's stream as bytes: it cuts lines wherever a buffer was full.
type stdioReader struct {
	rpc  grpc.ClientStream
	rest []byte
}

func (r *stdioReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		// StdioData{channel = 1, data = 2} is go-plugin's own message, so its fields are unknown ones here.
		var m emptypb.Empty
		if err := r.rpc.RecvMsg(&m); err != nil {
			return 0, err
		}
		r.rest = bytesField(m.ProtoReflect().GetUnknown(), 2)
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// bytesField finds the bytes of a field in an encoded message; nil: it has none.
func bytesField(msg []byte, want protowire.Number) []byte {
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeField(msg)
		if n < 0 {
			return nil
		}
		if num == want && typ == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(msg)
			b, _ := protowire.ConsumeBytes(msg[tag:])
			return b
		}
		msg = msg[n:]
	}
	return nil
}
