use crate::{Client, Device, Error};
use clap::Args;
use std::path::PathBuf;
use wire::AccessToken;

/// The server that a program connects to, as options of its command line.
#[derive(Args)]
pub struct ServerOptions {
    /// Address of the server, https://HOST:PORT or http://HOST:PORT.
    #[arg(long = "server", value_name = "URL")]
    pub url: String,
    /// PEM file of the certificate authorities to trust, instead of those that browsers trust.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// File with an API token or the operator's token, 64 hexadecimal digits, instead of the token of the
    /// bundle.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

impl ServerOptions {
    /// A client that sends the token of the file, if one is given, or else that of `device`
    /// ([`Client::with_device`]). `warn` gets a sentence if it travels without encryption.
    ///
    /// # Errors
    /// As [`Client::with_ca`]; [`Error::Wire`] for a file that holds no token.
    pub fn client(&self, device: Option<&Device>, warn: impl FnOnce(&str)) -> Result<Client, Error> {
        let client = match &self.ca {
            Some(ca) => Client::with_ca(&self.url, ca)?,
            None => Client::new(&self.url)?,
        };
        let own = self.token_file.as_deref().map(AccessToken::open).transpose()?;
        let client = match (own, device) {
            (Some(token), _) => client.with_token(token),
            (None, Some(device)) => client.with_device(device),
            (None, None) => client,
        };
        if client.shows_token() {
            warn(&format!(
                "the access token is sent to {} without encryption, and everybody who reads it can use it: use https, or a private line",
                client.server()
            ));
        }
        Ok(client)
    }
}
