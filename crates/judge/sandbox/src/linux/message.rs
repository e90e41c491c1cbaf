//! Messages between this program and a jail's processes: frames of JSON over a socket, with
//! descriptors.

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, send as send_bytes, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest frame, in bytes: longer than a process's arguments and environment can be.
const MAX_LENGTH: usize = 16 << 20;

/// Most descriptors that go with a frame.
const MAX_DESCRIPTORS: usize = 4;

/// Sends a message.
pub fn send<T: Serialize>(
    to: &UnixStream,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let json = serde_json::to_vec(message)?;
    let length = u32::try_from(json.len()).map_err(io::Error::other)?;
    let mut frame = length.to_le_bytes().to_vec();
    frame.extend(json);
    // If nobody listens any more, the call returns an error in place of a signal.
    let flags = SendFlags::NOSIGNAL;
    let mut sent = 0;
    // In a jail only `send` is allowed, which takes no descriptors.
    if !descriptors.is_empty() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sent = retry_on_intr(|| sendmsg(to, &[IoSlice::new(&frame)], &mut control, flags))?;
    }
    while sent < frame.len() {
        sent += retry_on_intr(|| send_bytes(to, &frame[sent..], flags))?;
    }
    Ok(())
}

/// Receives a message; at the end of the stream an error of the kind
/// [`io::ErrorKind::UnexpectedEof`].
pub fn receive<T: DeserializeOwned>(mut from: &UnixStream) -> io::Result<(T, Vec<OwnedFd>)> {
    let mut length = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got =
        retry_on_intr(|| recvmsg(from, &mut [IoSliceMut::new(&mut length)], &mut control, flags))?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    from.read_exact(&mut length[got.bytes..])?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_LENGTH {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut json = vec![0; length];
    from.read_exact(&mut json)?;
    Ok((serde_json::from_slice(&json)?, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn descriptors_travel_with_messages() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        send(&one, &("first", 1), &[writer.as_fd()]).unwrap();
        send(&one, &"second", &[]).unwrap();
        drop((one, writer));
        let (message, mut descriptors): ((String, i32), _) = receive(&other).unwrap();
        assert_eq!((message.0.as_str(), message.1, descriptors.len()), ("first", 1, 1));
        File::from(descriptors.remove(0)).write_all(b"through").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        let (message, descriptors): (String, _) = receive(&other).unwrap();
        assert_eq!((message.as_str(), descriptors.len()), ("second", 0));
        assert_eq!(receive::<String>(&other).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
